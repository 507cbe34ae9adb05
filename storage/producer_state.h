/* Idempotent producers of one partition: the last five batches of each producer id (KIP-98,
 * KIP-360; PROTOCOL section 10). An engine: no I/O; rebuilt by replaying the log. Also rolled back
 * that way when the log is cut: producer_state_clear, then replay. An undo of single batches would
 * need what the cache of five has already forgotten.
 *
 * Rules, in this order for a batch (pid, epoch, first..last sequence):
 *  1. same epoch and exactly one of the five cached ranges: a duplicate, answered with its offset;
 *  2. a lower epoch than the stored one: stale;
 *  3. a higher epoch: the first sequence must be 0, the cache is emptied (any higher epoch,
 * KIP-360);
 *  4. same epoch: the first sequence must be the last + 1, INT32_MAX followed by 0;
 *  5. no state: any sequence.
 * A refused batch never changes the state.
 *
 * Bounded: at most producers_max ids; at the limit, or without memory for one more, the one unused
 * for longest is forgotten. About 200 bytes per id.
 *
 * Shard: the owner of the partition.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "storage/batch.h"

enum {
    PRODUCER_BATCHES = 5,
};

struct producer_state;

enum err
producer_state_new(uint64_t hash_seed, uint32_t producers_max, struct producer_state **ret);
void producer_state_free(struct producer_state *ps);

struct producer_verdict {
    bool is_duplicate;
    int64_t base_offset; /* Of the original batch. */
    int64_t timestamp;
};

/* Judges a batch; changes nothing. Batches without producer id pass.
 *   ERR_SEQUENCE_OUT_OF_ORDER, ERR_PRODUCER_EPOCH_STALE
 */
enum err producer_state_check(const struct producer_state *ps,
                              const struct batch_header *h,
                              struct producer_verdict *ret_verdict);

/* The batch was appended at base_offset, in the entry index (or is replayed): takes it as it is,
 * since what the log holds is the truth. Indexes rise. Ignores batches without producer id, and
 * control batches, which have no sequence. */
void producer_state_apply(struct producer_state *ps,
                          const struct batch_header *h,
                          int64_t base_offset,
                          uint64_t index,
                          int64_t now_ms);

/* Writes all that is known to out; producer_state_restore into an empty one brings it back, as of
 * the entry index. Any bytes but those leave it empty: ERR_CORRUPT, ERR_NEWER_FORMAT. With a lower
 * producers_max than there are ids the least recently used ones are left out. */
void producer_state_encode(const struct producer_state *ps, struct wbuf *out);
enum err producer_state_restore(struct producer_state *ps, struct slice bytes, uint64_t index);

/* What is known of a producer. */
struct producer_view {
    int64_t id;
    int64_t last_timestamp; /* Of its last batch: the largest. */
    int32_t last_sequence;
    int16_t epoch;
};
/* Those unused for longest first. Copies at most views_max; returns how many there are. */
uint32_t producer_state_view(const struct producer_state *ps,
                             struct producer_view *ret_views,
                             uint32_t views_max);

/* h, a batch of the log, is what the next sequence of its producer is known by, of what lies below
 * end_offset: compaction must leave it. Also true where that cannot be told any more. */
bool producer_state_is_last(const struct producer_state *ps,
                            const struct batch_header *h,
                            int64_t end_offset);

/* Forgets ids without writes for longer than expiration_ms. */
void producer_state_expire(struct producer_state *ps, int64_t now_ms, int64_t expiration_ms);

/* Back to the empty state, before a replay. */
void producer_state_clear(struct producer_state *ps);
uint32_t producer_state_count(const struct producer_state *ps);
/* The index of the last batch applied: what a checkpoint of this state is good for. 0 = none. */
uint64_t producer_state_index(const struct producer_state *ps);

/* All invariants, for tests and the simulator. */
void producer_state_assert_valid(const struct producer_state *ps);
