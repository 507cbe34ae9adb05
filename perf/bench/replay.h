/* Record batches that are encoded before the run, and sent again and again: so the generator's own
 * cost stays small. Only their time changes, and the stamps, where records are not compressed.
 *
 * One thread.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/batch.h"

#include "perf/bench/workload.h"

enum {
    REPLAY_BATCHES_MAX = 16,
    REPLAY_SIZE_MAX = 32 << 20, /* Of all; but there is always one. */
};

struct replay_batch {
    struct wbuf bytes;
    struct batch_header header;
    uint32_t *value_pos; /* Of each value in bytes; NULL: they are compressed. */
    uint32_t *value_size;
};

struct replay {
    uint64_t run_id;
    int32_t records_count; /* Per batch, the same in all. */
    double record_size;    /* Key and value, on average. */
    struct replay_batch batches[REPLAY_BATCHES_MAX];
    size_t batches_count;
    size_t next;
};

struct replay_options {
    struct workload *workload;
    size_t batch_size; /* Of the records before compression; at least one record. */
    enum client_codec codec;
};

/* ERR_BUSY without memory; r may be given to replay_done too. */
enum err replay_init(struct replay *r, const struct replay_options *options);
void replay_done(struct replay *r);

/* The next batch, stamped, its records of this time; valid until its turn comes again, and copied
 * by who sends it. */
struct slice replay_next(struct replay *r, uint64_t due_us, int64_t wall_ms);
