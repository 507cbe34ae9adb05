/* A request of a consumer about some partitions, and what was known of them when it left. */
#pragma once

#include "kafka/proto/fetch.h"

#include "tests/sim/broker_mode.h"

enum {
    READ_ITEMS_MAX = TOPICS_MAX * TOPIC_PARTITIONS_MAX,
    FETCH_VERSION_SESSIONS = 7,
    FETCH_VERSION_ZSTD = 10,
    FETCH_VERSION_IDS = 13,
};

/* One partition of a request. */
struct read_item {
    uint32_t topic;
    uint32_t life;
    int32_t partition;
    char name[SESSION_NAME_SIZE];
    struct uuid id;
    int64_t offset;
    int64_t high_watermark; /* Known when the request left. */
    int64_t start;          /* Likewise. */
    bool is_lost;           /* The position was below the log start. */
    bool is_early;          /* The topic may or may not be there yet. */
    bool is_gone;           /* It was deleted. */
    bool is_named;          /* Of a session: the request says something of it. */
    bool is_answered;
    uint64_t sent_us;
    int64_t timestamp;      /* ListOffsets. */
    int32_t epoch_asked;    /* OffsetForLeaderEpoch. */
    int32_t epoch_believed; /* To be that of the broker's start; -1 = not said. */
};

struct read_call {
    struct kafka_call call;
    struct consumer *consumer;
    struct read_item items[READ_ITEMS_MAX];
    uint32_t items_count;
    enum session_use session_use;
    struct read_item forgotten[READ_ITEMS_MAX];
    uint32_t forgotten_count;
    /* Memory for the request. */
    struct fetch_request_forgotten_topic forgotten_topics[READ_ITEMS_MAX];
};

/* What is known of a partition now; its offset is left to the caller. */
struct read_item read_item_of(const struct broker_run *run, uint32_t topic, int32_t partition);

/* Asks where epochs end; all partitions are known. */
void consumer_send_epochs(struct read_call *rc);

/* NULL if the topic is not any more what it was. */
struct history *read_item_history(const struct broker_run *run, const struct read_item *item);
/* Errors that pass, or that a fault explains. */
bool read_item_is_passing(const struct broker_run *run, const struct read_item *item, int16_t code);
/* NULL if the request was not about it, which is a failure in itself for some. */
struct read_item *
read_call_find(struct read_call *rc, struct slice name, const struct uuid *id, int32_t partition);
