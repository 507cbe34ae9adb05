/* A compressed or to-be-compressed batch of a producer, looked into and re-encoded in steps: what
 * batch_check_produced does at once, for batches that would hold up a turn of the loop.
 *
 *   DECOMPRESS -> CHECK -> COMPRESS -> DONE
 *    (if compressed)        (if another codec is wanted)
 *
 * The batch keeps its format, offsets, producer fields and timestamps: the records part changes,
 * and with it length, codec and CRC. Its size is judged again as it will be stored, as Kafka does.
 *
 * Cost is counted in nanoseconds by a table, not measured: the same work is cut the same way in
 * every run. It is a budget, not a promise.
 *
 * Memory: the records in plain form, at most batch_records_size_max, and as much again for what is
 * made of them, until it is done; then what is stored, at most max.message.bytes. From malloc.
 *
 * Shard: pure; any.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "storage/batch.h"

struct recode;

struct recode_wish {
    struct slice batch;                /* Passed batch_check_head; valid until it is done. */
    const struct batch_header *header; /* From there. */
    const struct batch_rules *rules;
    enum batch_codec codec; /* That it shall have. */
    int32_t level;          /* As in codec.h; where codec is another one. */
};

/* True if there is anything to do in steps: records to decompress or to compress. Else
 * batch_check_records sees to all of it. */
bool recode_is_needed(const struct recode_wish *wish);

/* ERR_BUSY without memory. Everything but the batch's bytes is copied. */
enum err recode_new(const struct recode_wish *wish, struct recode **ret_recode);
/* Accepts NULL. */
void recode_free(struct recode *r);

/* Works for about budget_ns, and a little in any case; returns what it cost. Not when it is done.
 */
uint64_t recode_step(struct recode *r, uint64_t budget_ns);
bool recode_is_done(const struct recode *r);

/* When done. Errors as batch_check_produced, with the fault in *ret_fault; ERR_TOO_LARGE also for a
 * batch that is larger than max.message.bytes when encoded anew. On success *ret_header is the
 * header to store; with it goes what recode_records says. */
enum err recode_result(const struct recode *r,
                       struct batch_header *ret_header,
                       struct batch_fault *ret_fault);
/* The records part to store: the batch's own, if the codec stays. Valid until recode_free. */
struct slice recode_records(const struct recode *r);
/* The batch's bytes are no longer needed. */
bool recode_has_own_records(const struct recode *r);
/* Bytes of memory held. */
size_t recode_memory_size(const struct recode *r);
