/* Produce: check, stamp, append, park until committed. See the rules in partition.h. */
#include <string.h>

#include "cluster/partition_priv.h"
#include "core/assert.h"
#include "core/crc32c.h"
#include "core/reached.h"
#include "core/shard.h"
#include "storage/producer_state.h"

enum {
    CRC_POS = 17,           /* In the batch header; what it covers starts behind it. */
    ATTRIBUTES_POS = 21,    /* BATCH_HEAD_SIZE: all before is outside the CRC. */
    MAX_TIMESTAMP_POS = 35, /* Behind attributes, last offset delta, base timestamp. */
    PRODUCERS_EXPIRE_INTERVAL_US = 600 * 1000 * 1000,
};

static_assert((int)ATTRIBUTES_POS == (int)BATCH_HEAD_SIZE, "Kafka's layout");

/* The header of the batch as it will stand in the log. */
struct stamped {
    uint8_t header[BATCH_HEADER_SIZE];
    int64_t max_timestamp;
};

static void put_big_endian(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)(value >> (8 * (size - 1 - i)));
    }
}

/* LogAppendTime: the broker's time is the batch's largest, and a bit says that it counts for all
 * records. Both are under the CRC. */
static void stamp_append_time(struct stamped *stamped,
                              const struct batch_header *h,
                              struct slice batch,
                              int64_t wall_ms)
{
    const uint16_t attributes = (uint16_t)h->attributes | BATCH_LOG_APPEND_TIME;
    put_big_endian(stamped->header + ATTRIBUTES_POS, attributes, 2);
    put_big_endian(stamped->header + MAX_TIMESTAMP_POS, (uint64_t)wall_ms, 8);
    uint32_t crc = crc32c(stamped->header + BATCH_HEAD_SIZE, BATCH_HEADER_SIZE - BATCH_HEAD_SIZE);
    crc = crc32c_extend(crc, batch.data + BATCH_HEADER_SIZE, batch.size - BATCH_HEADER_SIZE);
    put_big_endian(stamped->header + CRC_POS, crc, 4);
    stamped->max_timestamp = wall_ms;
}

static void stamp(const struct partition *p,
                  const struct partition_op *op,
                  int64_t base_offset,
                  struct stamped *ret_stamped)
{
    const struct slice batch = op->in.produce.batch;
    memcpy(ret_stamped->header, batch.data, BATCH_HEADER_SIZE);
    ret_stamped->max_timestamp = op->work.header.max_timestamp;
    if (p->settings.is_log_append_time) {
        stamp_append_time(ret_stamped, &op->work.header, batch, p->env->s->wall_ms);
    }
    batch_stamp(ret_stamped->header, base_offset, partition_leader_epoch(p));
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
    if (need_producers(p) != ERR_OK) {
        return ERR_FAILED; /* Not ERR_BUSY: no on_room would come for it. */
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
    struct stamped stamped;
    stamp(p, op, base_offset, &stamped);
    const struct log_entry entry = {
        .type = ENTRY_DATA,
        .term = p->env->term,
        .base_offset = base_offset,
        .next_offset = base_offset + h->last_offset_delta + 1,
        .max_timestamp = stamped.max_timestamp,
        .payload = slice_of(stamped.header, BATCH_HEADER_SIZE),
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
    if (stamped.max_timestamp > p->timestamp_max) {
        p->timestamp_max = stamped.max_timestamp;
    }
    op->out.produce.base_offset = base_offset;
    op->out.produce.append_time_ms = p->settings.is_log_append_time ? stamped.max_timestamp : -1;
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

/* ERR_BUSY changes nothing: the same call again is the retry. The producer is judged in that retry,
 * not before, because those ahead in the backlog count. */
static enum err try_produce(struct partition *p, struct partition_op *op)
{
    if (!op->is_checked) {
        enum err e = check(p, op);
        if (e != ERR_OK) {
            return e;
        }
    }
    struct producer_verdict verdict;
    enum err e = judge(p, &op->work.header, &verdict);
    if (e != ERR_OK) {
        return e;
    }
    if (verdict.is_duplicate) {
        answer_duplicate(p, op, &verdict);
    } else {
        e = append(p, op);
    }
    if (e != ERR_OK) {
        return e;
    }
    send_copied(p, op);
    if (op->in.produce.acks == 0) {
        partition_finish(p, op, ERR_OK);
    } else {
        partition_park(p, op);
    }
    return ERR_OK;
}

static void refuse(struct partition *p, struct partition_op *op, enum err e)
{
    p->env->counters->refused_batches++;
    partition_finish(p, op, e);
}

void partition_produce(struct partition *p, struct partition_op *op)
{
    op->is_checked = false;
    op->out.produce.base_offset = -1;
    op->out.produce.append_time_ms = -1;
    op->out.produce.fault = (struct batch_fault){.message = NULL, .record_index = -1};
    op->started_us = p->env->s->now_us;
    enum err e = list_is_empty(&p->backlog) ? try_produce(p, op) : ERR_BUSY;
    if (e == ERR_BUSY) {
        reached(p->env->s, "produce_waits_for_room");
        p->env->counters->backlog++;
        list_push_back(&p->backlog, &op->link);
    } else if (e != ERR_OK) {
        refuse(p, op, e);
    }
}

void partition_drain_backlog(struct partition *p)
{
    while (p->state == PARTITION_SERVING && !list_is_empty(&p->backlog)) {
        struct partition_op *op = container_of(p->backlog.next, struct partition_op, link);
        list_remove(&op->link);
        enum err e = try_produce(p, op);
        if (e == ERR_BUSY) {
            list_push_front(&p->backlog, &op->link);
            return;
        }
        p->env->counters->backlog--;
        if (e != ERR_OK) {
            refuse(p, op, e);
        }
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
