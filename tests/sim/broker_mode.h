/* Mode "broker": one whole broker, made of the product's objects on simulated ones, and clients
 * that speak Kafka to it over the simulated net, through crashes and restarts.
 *
 *   broker_mode.c  one life of the broker: start, run, stop
 *   admin.c        creates and deletes topics, compares metadata
 *   trim.c         deletes records, for the admin
 *   alter.c        alters configurations and asks for them, likewise; configs.c is what they mean
 *   grow.c         adds partitions, likewise
 *   crowd.c        creates and deletes many topics at once
 *   producer.c     sends batches, repeats what was not acknowledged
 *   consumer.c     reads everything, over and over; session.c is its fetch session
 *   epochs.c       asks where leader epochs end, for a consumer
 *   dirs.c         data directories: their order, one that breaks
 *   history.c      what they know, and the checks; history_keys.c of compacted topics,
 *                  history_epochs.c of leader epochs
 */
#pragma once

#include "broker/settings.h"
#include "broker/wiring.h"
#include "storage/batch.h"

#include "tests/sim/batches.h"
#include "tests/sim/configs.h"
#include "tests/sim/dirs.h"
#include "tests/sim/history.h"
#include "tests/sim/kafka_client.h"
#include "tests/sim/life.h"
#include "tests/sim/net_sim.h"
#include "tests/sim/session.h"

enum {
    TOPICS_MAX = 3,
    TOPIC_PARTITIONS_MAX = 4,
    CROWD_MAX = 24,
    PRODUCERS_MAX = 4,
    CONSUMERS_MAX = 2,
    LANES_MAX = 3,
    LANE_QUEUE_MAX = 5, /* What the broker remembers of an idempotent producer. */
    PRODUCER_IDS_MAX = 256,
};

struct broker_run;

enum topic_state {
    TOPIC_ABSENT,
    TOPIC_CREATING, /* Asked for; may or may not be there. */
    TOPIC_LIVE,     /* Acknowledged. */
    TOPIC_DELETING, /* Asked for; may or may not be gone. */
};

struct sim_topic {
    char name[32];
    uint32_t life; /* Rises with every creation. */
    enum topic_state state;
    struct uuid id;
    int32_t partitions_count;
    int32_t partitions_wanted; /* It grows to so many; 0 = it does not. */
    struct topic_kind kind;
    struct sim_configs configs; /* Acknowledged. */
    struct sim_configs wanted;  /* While it is altered. */
    bool is_altering;
    struct history_rules rules; /* As may be in force now. */
    uint32_t rules_version;     /* Rises when they change. */
    uint32_t codecs_ever;
    struct history histories[TOPIC_PARTITIONS_MAX];
};

/* Somebody outside of the broker who does something from time to time. */
struct actor {
    struct broker_run *run;
    uint64_t next_us;
    void (*act)(struct actor *a);
};

/* What one partition's log was asked to be cut to, and what was known then. */
struct asked_start {
    bool is_asked;
    int64_t offset; /* -1 = the high watermark. */
    int64_t start;
    int64_t high_watermark;
};

/* A request that must change nothing. */
enum admin_trial {
    TRIAL_NONE,
    TRIAL_VALIDATE,
    TRIAL_INVALID,
};

struct admin {
    struct actor actor;
    struct kafka_caller caller;
    struct sim_topic *topic; /* That the call is about. */
    enum admin_trial trial;
    enum sim_level level; /* Whose configurations are altered; SIM_LEVELS_COUNT = the topic's. */
    uint32_t looks_count; /* Topics still to be looked at in this life, before anything else. */
    struct asked_start asked[TOPIC_PARTITIONS_MAX];
};

/* Topics with long names that are created and deleted by one request: a burst for the controller's
 * log. Nobody writes to them; they must be there, or not. */
struct crowd {
    struct actor actor;
    struct kafka_caller caller;
    uint32_t size; /* 0 = there is none in this run. */
    uint32_t life; /* Rises with every creation. */
    enum topic_state state;
};

/* A batch on its way. */
struct lane_entry {
    struct made_batch made;
    uint32_t batch; /* Its number in the history. */
    bool is_in_flight;
    bool is_probe; /* A repetition of what was acknowledged already. */
};

/* What a producer sends to one partition. */
struct lane {
    struct sim_topic *topic; /* NULL = none. */
    uint32_t life;           /* Of the topic. */
    int32_t partition;
    struct lane_entry queue[LANE_QUEUE_MAX]; /* Oldest first. */
    uint32_t queue_count;
    uint32_t in_flight_count;
    bool is_known;   /* The broker has acknowledged a batch of it. */
    bool is_blocked; /* Something failed: wait for all answers, then repeat in order. */
    int32_t sequence_next;
    struct lane_entry last; /* Acknowledged last; is_probe, bytes NULL = none. */
};

struct producer {
    struct actor actor;
    uint32_t number;
    struct kafka_client client;
    bool is_idempotent;
    int16_t acks;
    int64_t producer_id; /* -1 = not known. */
    int16_t producer_epoch;
    struct kafka_call init_call;
    bool is_init_calling;
    struct lane lanes[LANES_MAX];
    uint32_t lanes_count;
    uint64_t batches_count;
    uint32_t calls_count; /* Produce requests in flight. */
    /* Lives of topics in which it can write no more: a batch in the middle of its sequence is too
     * large for the topic as it was altered. */
    uint32_t given_up[TOPICS_MAX][TOPIC_PARTITIONS_MAX];
};

struct consumer_position {
    uint32_t life;
    int64_t offset;
    bool is_lost; /* It was below the log start: the earliest offset is asked for. */
    bool is_paused;
};

struct consumer {
    struct actor actor;
    struct kafka_client client;
    struct consumer_position positions[TOPICS_MAX][TOPIC_PARTITIONS_MAX];
    struct session session;
    bool is_calling;
};

struct broker_run {
    struct sim *sim;
    struct life life;
    struct net_sim net;
    struct broker_settings settings;
    struct broker *broker;
    struct machine_source actors_source;

    struct sim_dirs dirs;

    bool is_started;
    bool is_stopped;
    bool is_draining; /* No new batches, no new topics. */

    struct sim_topic topics[TOPICS_MAX];
    uint32_t topics_count;
    struct admin admin;
    struct crowd crowd;
    struct producer producers[PRODUCERS_MAX];
    uint32_t producers_count;
    struct consumer consumers[CONSUMERS_MAX];
    uint32_t consumers_count;
    struct sim_defaults defaults; /* Acknowledged. */
    struct sim_defaults defaults_wanted;
    bool are_defaults_altering;
    int32_t epoch;         /* Leader epoch of this start; -1 = not told yet. */
    int32_t epoch_before;  /* The highest one of those before; -1 = none. */
    uint64_t uncertain_us; /* When a produce request was last left without an answer. */
    int64_t producer_ids[PRODUCER_IDS_MAX]; /* Every one that was handed out. */
    uint32_t producer_ids_count;
};

/* Faults explain that a partition answers KAFKA_STORAGE_ERROR. */
bool run_explains(const struct broker_run *run, const struct sim_topic *t, int32_t partition);

/* Sets when the actor acts next: soon, by the swarm. */
void actor_rest(struct actor *a);
/* True if its client may send. Begins to connect if need be; rests longer if nobody listens. */
bool actor_connect(struct actor *a, struct kafka_client *c);

void admin_init(struct admin *a, struct broker_run *run);
void admin_done(struct admin *a);

/* A life begins. */
void admin_wake(struct admin *a);
/* The request may be repeated; nobody knows what became of it. */
bool admin_is_retriable(struct admin *a, int16_t code);
/* Here a crash would be interesting. */
void admin_crash_soon(struct admin *a, uint64_t steps_max);

/* Deletes records of a's topic. */
void admin_send_trim(struct admin *a);
/* Alters its configurations; the second one again what is begun. */
void admin_begin_alter(struct admin *a);
void admin_begin_alter_defaults(struct admin *a);
void admin_send_alter(struct admin *a);
void admin_send_describe(struct admin *a);
/* Gives it more partitions; likewise. */
void admin_begin_grow(struct admin *a);
void admin_send_grow(struct admin *a);

/* The topic has one more, as far as clients know. */
void topic_add_partition(struct sim *sim, struct sim_topic *t);

void crowd_init(struct crowd *c, struct broker_run *run);
void crowd_done(struct crowd *c);

void producer_init(struct producer *p, struct broker_run *run, uint32_t number);
void producer_done(struct producer *p);
/* Nothing is queued or in flight. */
bool producer_is_drained(const struct producer *p);
/* Nothing is queued for partitions that have no reason to fail. */
bool producer_is_served(const struct producer *p);

void consumer_init(struct consumer *c, struct broker_run *run);
void consumer_done(struct consumer *c);
/* Begins again at offset 0 everywhere. */
void consumer_rewind(struct consumer *c);
/* It has read everything up to the high watermarks. */
bool consumer_is_drained(const struct consumer *c);
