/* Produce: check, stamp, append, park until committed. See the rules in partition.h. */
#include <string.h>

#include "cluster/partition_priv.h"
#include "core/assert.h"
#include "core/reached.h"
#include "core/shard.h"
#include "storage/producer_state.h"

enum {
    PRODUCERS_EXPIRE_INTERVAL_US = 600 * 1000 * 1000,
};

/* The header of the batch as it will stand in the log: what the leader sets is in op's by now. */
static void stamp(const struct partition *p,
                  const struct partition_op *op,
                  int64_t base_offset,
                  uint8_t ret_header[BATCH_HEADER_SIZE])
{
    const struct slice batch = op->in.produce.batch;
    if (batch_needs_rewrite(batch, &op->work.header)) {
        const struct slice records =
            slice_of(batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE);
        batch_header_encode(&op->work.header, records, ret_header);
    } else {
        memcpy(ret_header, batch.data, BATCH_HEADER_SIZE);
    }
    batch_stamp(ret_header, base_offset, partition_leader_epoch(p));
}

static enum err check(struct partition *p, struct partition_op *op)
{
    const struct batch_rules rules = {
        .size_max = p->settings.message_size_max,
        .produce_version = op->in.produce.produce_version,
        .is_compacted = p->settings.is_compacted,
        .is_log_append_time = p->settings.is_log_append_time,
        .wall_ms = p->env->s->wall_ms,
        .timestamp_before_ms_max = p->settings.timestamp_before_ms_max,
        .timestamp_after_ms_max = p->settings.timestamp_after_ms_max,
    };
    enum err e = batch_check_produced(
        op->in.produce.batch, &rules, &op->work.header, &op->out.produce.fault);
    op->is_checked = e == ERR_OK;
    return e;
}

static enum err need_producers(struct partition *p)
{
    if (p->producers != NULL) {
        return ERR_OK;
    }
    return producer_state_new(p->env->s->hash_seed, p->env->settings->producers_max, &p->producers);
}

/* No timer of its own per partition: whoever produces with an id pays for the sweep. */
static void expire_producers(struct partition *p)
{
    const uint64_t now_us = p->env->s->now_us;
    if (now_us < p->producers_expire_us) {
        return;
    }
    p->producers_expire_us = now_us + PRODUCERS_EXPIRE_INTERVAL_US;
    producer_state_expire(
        p->producers, p->env->s->wall_ms, p->env->settings->producer_expiration_ms);
}

static enum err
judge(struct partition *p, const struct batch_header *h, struct producer_verdict *ret_verdict)
{
    *ret_verdict = (struct producer_verdict){0};
    if (h->producer_id < 0) {
        return ERR_OK;
    }
    enum err e = need_producers(p);
    if (e != ERR_OK) {
        return e;
    }
    expire_producers(p);
    return producer_state_check(p->producers, h, ret_verdict);
}

/* The bytes of the batch are in the log's tail, or refused: the client's buffer is free. */
static void send_copied(struct partition *p, struct partition_op *op)
{
    if (op->in.produce.on_copied != NULL) {
        op->copied_msg.next_hop = &op->copied_route;
        xmsg_send(p->env->s, &op->copied_msg);
    }
}

static enum err append(struct partition *p, struct partition_op *op)
{
    const struct batch_header *h = &op->work.header;
    const struct slice batch = op->in.produce.batch;
    const int64_t base_offset = log_next_offset(p->log);
    uint8_t header[BATCH_HEADER_SIZE];
    stamp(p, op, base_offset, header);
    const struct log_entry entry = {
        .type = ENTRY_DATA,
        .term = p->env->term,
        .base_offset = base_offset,
        .next_offset = base_offset + h->last_offset_delta + 1,
        .max_timestamp = h->max_timestamp,
        .payload = slice_of(header, sizeof(header)),
        .payload_rest = slice_of(batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE),
    };
    uint64_t index;
    enum err e = log_append(p->log, &entry, &index);
    if (e != ERR_OK) {
        return e;
    }
    if (h->producer_id >= 0) {
        producer_state_apply(p->producers, h, base_offset, index, p->env->s->wall_ms);
    }
    if (h->max_timestamp > p->timestamp_max) {
        p->timestamp_max = h->max_timestamp;
    }
    op->out.produce.base_offset = base_offset;
    op->out.produce.append_time_ms = p->settings.is_log_append_time ? h->max_timestamp : -1;
    op->need_offset = entry.next_offset;
    struct partition_counters *counters = p->env->counters;
    counters->produced_batches++;
    counters->produced_records += (uint64_t)h->records_count;
    counters->produced_bytes += batch.size;
    return ERR_OK;
}

static void answer_duplicate(struct partition *p,
                             struct partition_op *op,
                             const struct producer_verdict *verdict)
{
    p->env->counters->duplicate_batches++;
    if (verdict->base_offset >= p->high_watermark) {
        reached(p->env->s, "produce_duplicate_in_flight");
    }
    op->out.produce.base_offset = verdict->base_offset;
    op->out.produce.append_time_ms = p->settings.is_log_append_time ? verdict->timestamp : -1;
    op->need_offset = verdict->base_offset + op->work.header.last_offset_delta + 1;
}

static void refuse(struct partition *p, struct partition_op *op, enum err e)
{
    p->env->counters->refused_batches++;
    partition_finish(p, op, e);
}

static void accepted(struct partition *p, struct partition_op *op)
{
    send_copied(p, op);
    if (op->in.produce.acks == 0) {
        partition_finish(p, op, ERR_OK);
    } else {
        partition_park(p, op);
    }
}

/* False, and nothing changed, if the log has no room: its on_room is when to call again. Only the
 * log's word counts: whatever else lacks memory tells nobody when it has some, and is refused for
 * the client to try again. The producer is judged again in the retry, because those ahead in the
 * backlog count. */
static bool try_produce(struct partition *p, struct partition_op *op)
{
    struct producer_verdict verdict;
    enum err e = op->is_checked ? ERR_OK : check(p, op);
    if (e == ERR_OK) {
        e = judge(p, &op->work.header, &verdict);
    }
    if (e != ERR_OK) {
        refuse(p, op, e);
        return true;
    }
    if (verdict.is_duplicate) {
        answer_duplicate(p, op, &verdict);
        accepted(p, op);
        return true;
    }
    e = append(p, op);
    if (e == ERR_BUSY) {
        return false;
    }
    if (e == ERR_OK) {
        accepted(p, op);
    } else {
        refuse(p, op, e);
    }
    return true;
}

void partition_produce(struct partition *p, struct partition_op *op)
{
    op->is_checked = false;
    op->out.produce.base_offset = -1;
    op->out.produce.append_time_ms = -1;
    op->out.produce.fault = (struct batch_fault){.message = NULL, .record_index = -1};
    op->started_us = p->env->s->now_us;
    if (list_is_empty(&p->backlog) && try_produce(p, op)) {
        return;
    }
    if (p->env->is_quiescing) {
        refuse(p, op, ERR_CANCELLED);
        return;
    }
    reached(p->env->s, "produce_waits_for_room");
    p->env->counters->backlog++;
    list_push_back(&p->backlog, &op->link);
}

void partition_drain_backlog(struct partition *p)
{
    while (p->state == PARTITION_SERVING && !list_is_empty(&p->backlog)) {
        struct partition_op *op = container_of(p->backlog.next, struct partition_op, link);
        list_remove(&op->link);
        if (!try_produce(p, op)) {
            list_push_front(&p->backlog, &op->link);
            return;
        }
        p->env->counters->backlog--;
    }
}

void partition_produce_committed(struct partition *p, struct partition_op *op)
{
    histogram_record(&p->env->counters->produce_us, p->env->s->now_us - op->started_us);
    partition_finish(p, op, ERR_OK);
}

enum err partition_replay(struct partition *p, const struct log_entry *entry)
{
    if (entry->type != ENTRY_DATA) {
        return ERR_OK; /* Takes no offset and no producer. */
    }
    struct batch_header h;
    enum err e = batch_header_decode(entry->payload, &h);
    if (e != ERR_OK) {
        return ERR_CORRUPT;
    }
    if (entry->max_timestamp > p->timestamp_max) {
        p->timestamp_max = entry->max_timestamp;
    }
    if (h.producer_id < 0) {
        return ERR_OK;
    }
    e = need_producers(p);
    if (e != ERR_OK) {
        return e;
    }
    /* Aged from now on, not from the record's time: that is the client's word. */
    producer_state_apply(p->producers, &h, entry->base_offset, entry->index, p->env->s->wall_ms);
    return ERR_OK;
}
