/* Records of one partition that travel together: filled, closed, encoded, sent until it is settled,
 * told to the program.
 *
 * Private to client/. With the client's lock held, but for client_batch_encode.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "core/list.h"
#include "storage/batch.h"

struct client_lane;
struct client_producer;

/* What the program is told of each record, and the batch itself does not have. */
struct client_mark {
    void *opaque;
    int64_t timestamp;
};

struct client_batch {
    struct list link;     /* lane.batches, then client.deliveries */
    struct list age_link; /* producer.batches, until the program was told */
    struct client_producer *producer;
    struct client_lane *lane;
    uint64_t serial;              /* Ascending by age. */
    struct batch_builder builder; /* Until it is encoded. */
    struct client_mark *marks;    /* One per record; NULL: nobody wants to be told. */
    size_t marks_capacity;
    size_t size; /* What it takes of the client's buffer. */
    int32_t records_count;
    uint64_t opened_us; /* When its first record came. */
    uint64_t deadline_us;
    bool is_closed; /* Takes no more records. */
    bool is_whole;  /* Came encoded: told as one, with one mark, and never split. */

    bool is_in_flight;
    uint32_t attempts;
    /* Some attempt had no answer that tells whether the batch is in the log. Then its identity must
     * not change: only the broker can tell a repetition by it. */
    bool is_uncertain;
    bool is_void; /* The attempt in flight can only be refused: the batch before it was. */
    struct batch_identity identity;
    struct wbuf bytes; /* As sent. */

    enum err err; /* Of the latest attempt, and in the end. */
    char why[CLIENT_WHY_SIZE];
    int64_t base_offset;    /* -1: not told. */
    int64_t append_time_ms; /* The broker's; -1: the records keep their own. */
};

/* NULL without memory. */
struct client_batch *client_batch_new(struct client_producer *p, struct client_lane *lane);
void client_batch_free(struct client_batch *b);

/* ERR_TOO_LARGE, ERR_BUSY: b is as before. */
enum err client_batch_add(struct client_batch *b, const struct client_message *m, int64_t now_ms);

/* Makes b, which is new, of bytes that were encoded elsewhere. ERR_INVALID: they are not exactly
 * one batch. ERR_BUSY. */
enum err client_batch_take(struct client_batch *b, struct slice bytes, void *opaque);

/* Makes bytes of it, or brings the identity in bytes up to date. Without the lock: takes time. */
enum err client_batch_encode(struct client_batch *b, enum client_codec codec);

/* Splits a batch that was encoded in two, after it in its lists. ERR_BUSY, ERR_CORRUPT: b is as
 * before. */
enum err client_batch_split(struct client_batch *b);

/* The bytes of a record, without what holds them together. */
size_t client_message_size(const struct client_message *m);
