/* Everything that reads. See the rules in partition.h. */
#include "cluster/partition_priv.h"
#include "core/assert.h"

/* Kafka's rule (PROTOCOL 12): below the log start or above its end is an error; between high
 * watermark and end there is just nothing yet. Where damage hides the end, a reader behind it is
 * told of the damage: "out of range" would let it start over, an empty answer wait for ever. */
static enum err check_range(const struct partition *p, int64_t offset)
{
    if (log_is_end_unknown(p->log) && offset >= log_next_offset(p->log)) {
        return ERR_CORRUPT;
    }
    if (offset < log_start_offset(p->log) || offset > log_next_offset(p->log)) {
        return ERR_OUT_OF_RANGE;
    }
    return ERR_OK;
}

void partition_peek(struct partition *p, struct partition_op *op)
{
    const int64_t offset = op->in.fetch.offset;
    enum err e = check_range(p, offset);
    op->out.fetch.size = 0;
    op->out.fetch.size_needed = 0;
    if (e == ERR_OK && offset < p->high_watermark) {
        op->out.fetch.size =
            log_readable_size(p->log, offset, p->high_watermark, op->in.fetch.size_max);
    }
    partition_finish(p, op, e);
}

static void on_read(struct log_read *r)
{
    struct partition_op *op = container_of(r, struct partition_op, work.read);
    struct partition *p = op->server;
    op->out.fetch.size = r->result == ERR_OK ? r->size : 0;
    op->out.fetch.size_needed = r->result == ERR_TOO_LARGE ? r->size_needed : 0;
    op->out.fetch.pin = r->pin;
    op->out.fetch.copied_size = r->copied_size;
    p->env->counters->fetched_bytes += op->out.fetch.size;
    if (r->result == ERR_CORRUPT) {
        partition_tell_trouble(p, false);
    }
    partition_finish(p, op, r->result);
    partition_read_ended(p);
}

void partition_read(struct partition *p, struct partition_op *op)
{
    const int64_t offset = op->in.fetch.offset;
    enum err e = check_range(p, offset);
    op->out.fetch.size = 0;
    op->out.fetch.size_needed = 0;
    op->out.fetch.pin = NULL;
    op->out.fetch.copied_size = 0;
    partition_offsets(p, &op->offsets);
    if (e != ERR_OK || offset >= p->high_watermark) {
        partition_finish(p, op, e);
        return;
    }
    op->work.read = (struct log_read){
        .offset = offset,
        .end_offset = p->high_watermark,
        .dst = op->in.fetch.dst,
        .dst_size = op->in.fetch.dst_size,
        .pieces_max = op->in.fetch.pieces_max,
        .is_header_enough = op->in.fetch.is_header_enough,
        .on_done = on_read,
    };
    p->reads_count++;
    log_read_begin(p->log, &op->work.read);
}

void partition_wait(struct partition *p, struct partition_op *op)
{
    if (op->in.wait.high_watermark < p->high_watermark) {
        partition_finish(p, op, ERR_OK);
        return;
    }
    p->env->counters->waits++;
    list_push_back(&p->waits, &op->link);
}

/* "There is none" cannot be said where damage hides the end, nor which timestamp is the largest. */
static void finish_find_time(struct partition *p, struct partition_op *op, enum err e)
{
    const bool is_largest_wanted = op->in.find_time.timestamp == PARTITION_TIMESTAMP_MAX;
    if (e == ERR_OK && log_is_end_unknown(p->log) &&
        (is_largest_wanted || op->out.find_time.offset < 0)) {
        e = ERR_CORRUPT;
    }
    partition_finish(p, op, e);
}

static void on_time_found(struct log_time_query *q)
{
    struct partition_op *op = container_of(q, struct partition_op, work.query);
    struct partition *p = op->server;
    if (q->result == ERR_OK && q->ret_offset >= 0) {
        op->out.find_time.offset = q->ret_offset;
        op->out.find_time.timestamp = q->ret_timestamp;
        op->out.find_time.leader_epoch = (int32_t)q->ret_term;
    }
    if (q->result == ERR_CORRUPT) {
        partition_tell_trouble(p, false);
    }
    finish_find_time(p, op, q->result);
    partition_read_ended(p);
}

void partition_find_time(struct partition *p, struct partition_op *op)
{
    const bool is_largest_wanted = op->in.find_time.timestamp == PARTITION_TIMESTAMP_MAX;
    op->out.find_time.offset = -1;
    op->out.find_time.timestamp = -1;
    op->out.find_time.leader_epoch = -1;
    if (p->high_watermark == log_start_offset(p->log)) {
        finish_find_time(p, op, ERR_OK); /* Empty. */
        return;
    }
    op->work.query = (struct log_time_query){
        .timestamp = is_largest_wanted ? LOG_TIME_LARGEST : op->in.find_time.timestamp,
        .end_offset = p->high_watermark,
        .on_done = on_time_found,
    };
    p->reads_count++;
    log_time_query_begin(p->log, &op->work.query);
}

/* KIP-320, OffsetForLeaderEpoch (PROTOCOL 14). */
void partition_term_end(struct partition *p, struct partition_op *op)
{
    const int32_t wanted = op->in.term_end.leader_epoch;
    op->out.term_end.leader_epoch = -1;
    op->out.term_end.end_offset = -1;
    uint64_t term;
    int64_t end_offset;
    if (wanted == partition_leader_epoch(p)) {
        op->out.term_end.leader_epoch = wanted;
        op->out.term_end.end_offset = log_next_offset(p->log);
    } else if (wanted > partition_leader_epoch(p) || wanted < 0) {
        /* Larger than all known. */
    } else if (log_term_end(p->log, (uint64_t)wanted, &term, &end_offset)) {
        op->out.term_end.leader_epoch = (int32_t)term;
        op->out.term_end.end_offset = end_offset;
    } else {
        op->out.term_end.leader_epoch = wanted; /* Older than all known. */
        op->out.term_end.end_offset = log_start_offset(p->log);
    }
    partition_finish(p, op, ERR_OK);
}

void partition_producers(struct partition *p, struct partition_op *op)
{
    op->out.producers.count =
        p->producers == NULL
            ? 0
            : producer_state_view(p->producers, op->in.producers.views, op->in.producers.views_max);
    partition_finish(p, op, ERR_OK);
}
