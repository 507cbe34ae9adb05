/* Produce: check, stamp, append, park until committed. See the rules in partition.h. */
#include <stdlib.h>
#include <string.h>

#include "cluster/partition_priv.h"
#include "core/assert.h"
#include "core/reached.h"
#include "core/shard.h"
#include "storage/producer_state.h"

enum {
    PRODUCERS_EXPIRE_INTERVAL_US = 600 * 1000 * 1000,
};

/* ---- checks and codecs ---- */

void partition_drop_recoding(struct partition *p)
{
    if (p->recoding != NULL) {
        recoder_drop(p->env->recoder, &p->recoding->job);
        free(p->recoding);
        p->recoding = NULL;
    }
}

static bool is_recoding(const struct partition *p, const struct partition_op *op)
{
    return p->recoding != NULL && p->recoding->op == op;
}

static void on_recoded(struct recode_job *job)
{
    partition_drain_backlog(container_of(job, struct partition_recoding, job)->p);
}

/* The recoder is done with op's batch. */
static enum err take_recoded(struct partition *p, struct partition_op *op)
{
    const struct recode_job *job = &p->recoding->job;
    enum err e = job->result;
    op->out.produce.fault = job->fault;
    if (e == ERR_OK) {
        op->work.header = job->header;
        op->is_checked = true;
    }
    if (e != ERR_OK || !recode_job_has_own_records(job)) {
        partition_drop_recoding(p);
    }
    return e;
}

static enum err
start_recoding(struct partition *p, struct partition_op *op, const struct recode_wish *wish)
{
    assert(p->recoding == NULL);
    struct partition_recoding *recoding = malloc(sizeof(*recoding));
    if (recoding == NULL) {
        op->out.produce.fault = (struct batch_fault){"no memory to look into the records", -1};
        return ERR_BUSY;
    }
    *recoding = (struct partition_recoding){
        .job =
            {
                .batch = wish->batch,
                .header = *wish->header,
                .rules = *wish->rules,
                .codec = wish->codec,
                .level = wish->level,
                .on_done = on_recoded,
            },
        .p = p,
        .op = op,
    };
    p->recoding = recoding;
    return recoder_submit(p->env->recoder, &recoding->job) ? take_recoded(p, op) : ERR_OK;
}

/* The header must say what there is; its records are the builder's business. */
static enum err check_own(struct partition_op *op)
{
    const struct slice batch = op->in.produce.batch;
    enum err e = batch_header_decode(batch, &op->work.header);
    if (e == ERR_OK && batch_size(&op->work.header) != batch.size) {
        e = ERR_RECORD_INVALID;
    }
    op->is_checked = e == ERR_OK;
    return e;
}

/* op->is_checked stays false if the recoder works on it: partition_drain_backlog comes back. */
static enum err check(struct partition *p, struct partition_op *op)
{
    if (is_recoding(p, op)) {
        return recode_job_is_done(&p->recoding->job) ? take_recoded(p, op) : ERR_OK;
    }
    if (op->in.produce.is_own) {
        return check_own(op);
    }
    const struct batch_rules rules = {
        .size_max = p->settings.message_size_max,
        .produce_version = op->in.produce.produce_version,
        .is_compacted = p->settings.is_compacted,
        .is_log_append_time = p->settings.is_log_append_time,
        .wall_ms = p->env->s->wall_ms,
        .timestamp_before_ms_max = p->settings.timestamp_before_ms_max,
        .timestamp_after_ms_max = p->settings.timestamp_after_ms_max,
    };
    const struct slice batch = op->in.produce.batch;
    struct batch_header *h = &op->work.header;
    enum err e = batch_check_head(batch, &rules, h, &op->out.produce.fault);
    if (e != ERR_OK) {
        return e;
    }
    const int8_t codec = p->settings.codec;
    const struct recode_wish wish = {
        .batch = batch,
        .header = h,
        .rules = &rules,
        .codec = codec == TOPIC_CODEC_PRODUCER ? batch_codec(h) : (enum batch_codec)codec,
        .level = p->settings.codec_level,
    };
    if (recode_is_needed(&wish)) {
        return start_recoding(p, op, &wish);
    }
    e = batch_check_records(h, batch_records_part(batch), &rules, &op->out.produce.fault);
    if (e == ERR_OK) {
        batch_set_by_leader(h, &rules);
        op->is_checked = true;
    }
    return e;
}

/* The batch as it will stand in the log: what the leader sets is in op's header by now. Returns its
 * records. */
static struct slice stamp(const struct partition *p,
                          const struct partition_op *op,
                          int64_t base_offset,
                          uint8_t ret_header[BATCH_HEADER_SIZE])
{
    const struct slice batch = op->in.produce.batch;
    const bool is_recoded = is_recoding(p, op);
    const struct slice records =
        is_recoded ? recode_job_records(&p->recoding->job) : batch_records_part(batch);
    if (is_recoded || batch_needs_rewrite(batch, &op->work.header)) {
        batch_header_encode(&op->work.header, records, ret_header);
    } else {
        memcpy(ret_header, batch.data, BATCH_HEADER_SIZE);
    }
    batch_stamp(ret_header, base_offset, partition_leader_epoch(p));
    return records;
}

/* ---- producers ---- */

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
    producer_state_expire(p->producers, p->env->s->wall_ms, p->env->producer_expiration_ms);
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

/* ---- append ---- */

/* The bytes of the batch are in the log's tail, or refused: the client's buffer is free. That wakes
 * nobody who does not wait for memory: the answer follows. */
static void send_copied(struct partition *p, struct partition_op *op)
{
    if (op->in.produce.on_copied != NULL) {
        op->copied_msg.next_hop = &op->copied_route;
        xmsg_send_quietly(p->env->s, &op->copied_msg);
    }
}

static void note_append(struct partition *p)
{
    if (p->unflushed_offset <= p->high_watermark) {
        p->unflushed_offset = log_next_offset(p->log);
        p->unflushed_us = p->env->s->now_us;
    }
}

void partition_note_flush(struct partition *p)
{
    if (p->unflushed_offset <= p->high_watermark && log_next_offset(p->log) > p->high_watermark) {
        p->unflushed_offset = log_next_offset(p->log);
        p->unflushed_us = p->env->s->now_us;
    }
}

static enum err append(struct partition *p, struct partition_op *op)
{
    const struct batch_header *h = &op->work.header;
    const int64_t base_offset = log_next_offset(p->log);
    uint8_t header[BATCH_HEADER_SIZE];
    const struct slice records = stamp(p, op, base_offset, header);
    const struct log_entry entry = {
        .type = ENTRY_DATA,
        .term = p->env->term,
        .base_offset = base_offset,
        .next_offset = base_offset + h->last_offset_delta + 1,
        .max_timestamp = h->max_timestamp,
        .payload = slice_of(header, sizeof(header)),
        .payload_rest = records,
    };
    uint64_t index;
    enum err e = log_append(p->log, &entry, &index);
    if (e != ERR_OK) {
        return e;
    }
    if (h->producer_id >= 0) {
        producer_state_apply(p->producers, h, base_offset, index, p->env->s->wall_ms);
    }
    op->out.produce.base_offset = base_offset;
    op->out.produce.append_time_ms = p->settings.is_log_append_time ? h->max_timestamp : -1;
    op->need_offset = entry.next_offset;
    struct partition_counters *counters = p->env->counters;
    counters->produced_batches++;
    counters->produced_records += (uint64_t)h->records_count;
    counters->produced_bytes += BATCH_HEADER_SIZE + records.size;
    note_append(p);
    if (is_recoding(p, op)) {
        partition_drop_recoding(p);
    }
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
    if (is_recoding(p, op)) {
        partition_drop_recoding(p);
    }
    p->env->counters->refused_batches++;
    partition_finish(p, op, e);
}

/* coreflume.ack=memory: whether one more answer keeps what is answered and not flushed within
 * flush.messages and flush.ms. Flushes run all the time; a bound only makes answers wait for them.
 */
static bool may_answer_early(const struct partition *p)
{
    if (!p->settings.is_ack_memory) {
        return false;
    }
    const int64_t unflushed = log_next_offset(p->log) - p->high_watermark;
    if (unflushed <= 0) {
        return true;
    }
    const uint64_t age_us = p->env->s->now_us - p->unflushed_us;
    return unflushed < p->settings.unflushed_records_max &&
           age_us / 1000 < (uint64_t)p->settings.unflushed_ms_max;
}

static void accepted(struct partition *p, struct partition_op *op)
{
    send_copied(p, op);
    if (op->in.produce.acks == 0) {
        partition_finish(p, op, ERR_OK);
    } else if (!op->in.produce.is_own && may_answer_early(p)) {
        reached(p->env->s, "produce_answered_from_memory");
        p->env->counters->early_answers++;
        partition_finish(p, op, ERR_OK);
    } else {
        partition_park(p, op);
    }
}

/* False, and nothing changed, if the log has no room: its on_room is when to call again; or if the
 * recoder has the batch: it tells when it is done. Only the log's word counts: whatever else lacks
 * memory tells nobody when it has some, and is refused for the client to try again. The producer is
 * judged again in the retry, because those ahead in the backlog count. */
static bool try_produce(struct partition *p, struct partition_op *op)
{
    struct producer_verdict verdict;
    enum err e = op->is_checked ? ERR_OK : check(p, op);
    if (e == ERR_OK && !op->is_checked) {
        return false;
    }
    if (e == ERR_OK) {
        e = judge(p, &op->work.header, &verdict);
    }
    if (e != ERR_OK) {
        refuse(p, op, e);
        return true;
    }
    if (verdict.is_duplicate) {
        if (is_recoding(p, op)) {
            partition_drop_recoding(p);
        }
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

static bool try_append(struct partition *p, struct partition_op *op)
{
    return op->kind == PARTITION_PRODUCE ? try_produce(p, op) : partition_try_delete_records(p, op);
}

void partition_append(struct partition *p, struct partition_op *op)
{
    if (list_is_empty(&p->backlog) && try_append(p, op)) {
        return;
    }
    if (p->env->is_quiescing) {
        p->env->counters->refused_batches += op->kind == PARTITION_PRODUCE;
        partition_finish(p, op, ERR_CANCELLED);
        return;
    }
    reached(p->env->s, "produce_waits_for_room");
    p->env->counters->backlog++;
    list_push_back(&p->backlog, &op->link);
}

void partition_produce(struct partition *p, struct partition_op *op)
{
    op->is_checked = false;
    op->out.produce.base_offset = -1;
    op->out.produce.append_time_ms = -1;
    op->out.produce.fault = (struct batch_fault){.message = NULL, .record_index = -1};
    op->started_us = p->env->s->now_us;
    partition_append(p, op);
}

void partition_drain_backlog(struct partition *p)
{
    while (p->state == PARTITION_SERVING && !list_is_empty(&p->backlog)) {
        struct partition_op *op = container_of(p->backlog.next, struct partition_op, link);
        list_remove(&op->link);
        if (!try_append(p, op)) {
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
    if (entry->type == ENTRY_LOG_START) {
        return partition_start_replay(p, entry);
    }
    if (entry->type != ENTRY_DATA) {
        return ERR_OK; /* Takes no offset and no producer. */
    }
    struct batch_header h;
    enum err e = batch_header_decode(entry->payload, &h);
    if (e != ERR_OK) {
        return ERR_CORRUPT;
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

/* ---- checkpoints ---- */

enum {
    STATE_VERSION = 1,
};

/* All that partition_replay makes of the entries. */
void partition_encode_state(const struct partition *p, struct wbuf *out)
{
    wbuf_u16(out, STATE_VERSION);
    wbuf_i64(out, partition_proposed_start(p));
    wbuf_bool(out, p->producers != NULL);
    if (p->producers != NULL) {
        producer_state_encode(p->producers, out);
    }
}

enum err partition_restore_state(struct partition *p, struct slice state, uint64_t index)
{
    struct rbuf r = rbuf_over(state.data, state.size);
    uint16_t version = rbuf_u16(&r);
    int64_t start_offset = rbuf_i64(&r);
    bool has_producers = rbuf_bool(&r);
    struct slice producers = rbuf_bytes(&r, rbuf_left(&r));
    enum err e = rbuf_finish(&r);
    if (e != ERR_OK || version != STATE_VERSION || start_offset < 0 ||
        (!has_producers && producers.size > 0)) {
        return version > STATE_VERSION ? ERR_NEWER_FORMAT : ERR_CORRUPT;
    }
    if (has_producers) {
        e = need_producers(p);
        if (e == ERR_OK) {
            e = producer_state_restore(p->producers, producers, index);
        }
        if (e != ERR_OK) {
            return e;
        }
    }
    partition_start_restore(p, start_offset, index);
    return ERR_OK;
}
