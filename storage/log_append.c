/* From an append to "durable": entries are copied to the tail page; a flush round takes what the
 * pages hold, in block-aligned parts, and tells when it is durable. Entries that arrive while a
 * round writes gather for the next one: that is the group commit, there is no timer.
 */
#include <string.h>

#include "core/logger.h"
#include "storage/log_priv.h"

enum {
    /* A spare segment is prepared when less than 1/8 of the current one is left. */
    SPARE_SHARE = 8,

    PAGE_FAST_US = 1000 * 1000,
    PAGE_SLOW_US = 10 * 1000 * 1000,
};

/* Where an entry goes. */
struct place {
    struct log_segment *seg; /* NULL: a new one. */
    struct log_page *page;   /* NULL: a new one. */
    uint64_t pos;
};

/* Kafka's rule (segment.ms): by the timestamps of the batches, so that a segment spans so much time
 * of the records and not of the broker. Looked at when a batch comes: an idle log rolls nothing. */
static bool
is_over_age(const struct log *l, const struct log_segment *seg, const struct log_entry *entry)
{
    if (entry->type != ENTRY_DATA || seg->age_ms_max == INT64_MAX) {
        return false;
    }
    if (seg->first_timestamp >= 0) {
        return entry->max_timestamp > seg->first_timestamp &&
               entry->max_timestamp - seg->first_timestamp > seg->age_ms_max;
    }
    return log_shard(l)->wall_ms - seg->created_ms > seg->age_ms_max;
}

/* The entry would bring a point that makes the index too large. */
static bool is_index_full(const struct log *l, const struct log_segment *seg)
{
    const uint64_t points_size = (seg->points.count + UINT64_C(1)) * sizeof(struct segment_point);
    return block_align_up(seg->tail_pos) >= seg->point_next_pos && seg->points.count > 0 &&
           points_size > l->options.index_size_max;
}

static bool needs_roll(const struct log *l,
                       const struct log_segment *seg,
                       const struct log_entry *entry,
                       uint64_t size)
{
    if (seg->end_pos == SEGMENT_HEADER_SIZE) {
        return false; /* Empty. */
    }
    if (block_align_up(seg->tail_pos) + size > l->options.segment_size_max) {
        return true;
    }
    /* There is room for the entry: a full disk is no reason to refuse it. */
    return !l->is_full &&
           (l->is_roll_wanted || is_over_age(l, seg, entry) || is_index_full(l, seg)) &&
           space_has_spare(l->env.space, l->tier, l->fill_step);
}

static struct place find_place(const struct log *l, const struct log_entry *entry, uint64_t size)
{
    struct log_segment *seg = log_tail_segment(l);
    if (seg == NULL || needs_roll(l, seg, entry, size)) {
        return (struct place){.pos = SEGMENT_HEADER_SIZE};
    }
    struct log_page *pg = log_tail_page(l);
    if (pg != NULL && pg->segment == seg) {
        uint64_t pos = entry_place(pg->pos + pg->used);
        if (pos + size <= pg->pos + pg->buf->capacity) {
            return (struct place){.seg = seg, .page = pg, .pos = pos};
        }
    }
    return (struct place){.seg = seg, .pos = block_align_up(seg->tail_pos)};
}

/* What the disk must have for an entry of size, at the least: zeros ahead come in steps, and a new
 * segment has a header. Were it taken with less, it would wait for space without a word. */
static uint64_t space_needed(const struct log *l, const struct place *where, uint64_t size)
{
    const uint64_t step = l->options.fill_step_min;
    const uint64_t least = size > step ? size : step;
    return where->seg == NULL ? SEGMENT_HEADER_SIZE + least : least;
}

static enum err
check_room(struct log *l, const struct place *where, uint64_t size, enum entry_type type)
{
    /* What frees space, and what keeps the log going, may take some of the reserve for it. */
    const enum space_tier tier = type == ENTRY_DATA ? l->tier : SPACE_CONTROL;
    uint64_t backlog_size = l->appended_size - l->flushed_size;
    bool is_crowded = backlog_size > 0 && backlog_size + size > LOG_BACKLOG_SIZE_MAX;
    const struct log_segment *tail = log_tail_segment(l);
    if (where->seg == NULL && tail != NULL && !tail->is_usable) {
        is_crowded = true; /* One birth at a time. */
    }
    bool needs_space = where->seg == NULL || where->pos + size > where->seg->written_to;
    bool is_refused =
        needs_space && !space_may_take(l->env.space, tier, space_needed(l, where, size));
    if (is_refused || (l->is_full && (is_crowded || needs_space))) {
        return log_room_refuse(l,
                               ERR_NO_SPACE); /* Nobody knows for how long: not to be waited for. */
    }
    return is_crowded ? log_room_refuse(l, ERR_BUSY) : ERR_OK;
}

static uint64_t draw_salt(struct shard *s)
{
    uint64_t salt = 0;
    while (salt == 0) {
        salt = rand_u64(&s->rand);
    }
    return salt;
}

/* The next segment, in memory; its birth is started. */
static struct log_segment *roll(struct log *l)
{
    struct log_segment *old = log_tail_segment(l);
    const struct segment_base base = {
        .index = l->last_index + 1,
        .offset = l->next_offset,
        .previous_id = l->last_id,
        .term = l->last_term,
    };
    struct log_segment *seg = log_segment_new(l, &base, draw_salt(log_shard(l)));
    if (seg == NULL) {
        return NULL;
    }
    if (old != NULL) {
        old->tail_pos = block_align_up(old->tail_pos);
        l->sealed_size += old->tail_pos;
        l->has_unindexed = true;
        l->stats.rolls++;
    }
    l->is_roll_wanted = false;
    list_push_back(&l->segments, &seg->link);
    log_compact_note(l);
    log_room_start_birth(l, seg);
    return seg;
}

/* Makes sure that there is a segment and a page. */
static enum err take_place(struct log *l, struct place *where, uint64_t size)
{
    if (where->seg == NULL) {
        where->seg = roll(l);
        if (where->seg == NULL) {
            return log_room_refuse(l, ERR_BUSY);
        }
    }
    if (where->page == NULL) {
        where->page = log_page_new(where->seg, where->pos, size);
        if (where->page == NULL) {
            buf_pool_wait(log_shard(l)->bufs, &l->memory);
            return log_room_refuse(
                l, ERR_BUSY); /* A new segment stays, empty; it is used next time. */
        }
    }
    return ERR_OK;
}

static void write_entry(struct log *l, const struct place *where, const struct log_entry *entry)
{
    struct log_page *pg = where->page;
    assert(pg != NULL);
    const size_t payload_size = entry->payload.size + entry->payload_rest.size;
    const uint64_t size = entry_size((uint32_t)payload_size);
    uint8_t *out = pg->buf->data + (where->pos - pg->pos);

    uint8_t *gap = pg->buf->data + pg->used;
    memset(gap, 0, (size_t)(out - gap));
    memset(out + size - ENTRY_ALIGN, 0, ENTRY_ALIGN); /* Alignment behind the payload. */
    uint8_t *payload = out + sizeof(struct entry_header);
    if (entry->payload.size > 0) {
        memcpy(payload, entry->payload.data, entry->payload.size);
    }
    if (entry->payload_rest.size > 0) {
        memcpy(payload + entry->payload.size, entry->payload_rest.data, entry->payload_rest.size);
    }
    struct entry_header h = {
        .payload_size = (uint32_t)payload_size,
        .salt = where->seg->salt,
        .generation = l->generation,
        .type = (uint8_t)entry->type,
        .index = l->last_index + 1,
        .term = entry->term,
        .base_offset = entry->base_offset,
        .next_offset = entry->next_offset,
        .max_timestamp = entry->max_timestamp,
        .durable_index = l->flushed_index,
        .durable_generation = l->generation,
        .previous_id = l->last_id,
    };
    h.entry_id = entry_id_of(&h, payload);
    entry_seal(&h, out);

    log_segment_note(where->seg, where->pos, &h);
    if (h.term != l->last_term) {
        log_terms_add(l, h.term, h.index, h.base_offset);
    }
    where->seg->end_pos = where->pos + size;
    where->seg->tail_pos = where->seg->end_pos;
    l->last_index = h.index;
    l->last_term = h.term;
    l->last_id = h.entry_id;
    l->next_offset = h.next_offset;
    l->appended_size += size;
    l->uncovered_size += size;
    l->appended_ms = log_shard(l)->wall_ms;
    l->stats.appended_entries++;
    l->stats.appended_bytes += size;

    pg->used = (uint32_t)(where->pos + size - pg->pos);
    pg->last_index = h.index;
    pg->next_offset = h.next_offset;
    pg->appended_end = l->appended_size;
    log_page_set_dirty(pg);
}

/* A page that filled up fast makes the next one larger: few large writes for a busy log, little
 * memory for a quiet one. */
static void adapt_page_size(struct log *l, const struct place *where)
{
    if (where->page != NULL) {
        return;
    }
    const struct log_page *last = log_tail_page(l);
    if (last == NULL) {
        l->page_size = LOG_PAGE_SIZE_MIN; /* Evicted: the log was quiet. */
        return;
    }
    uint64_t took_us = log_shard(l)->now_us - last->created_us;
    if (took_us < PAGE_FAST_US && l->page_size < LOG_PAGE_SIZE_MAX) {
        l->page_size *= 2;
    } else if (took_us > PAGE_SLOW_US && l->page_size > LOG_PAGE_SIZE_MIN) {
        l->page_size /= 2;
    }
}

static void prepare_spare(struct log *l, const struct log_segment *seg)
{
    if (l->birth != NULL || !seg->is_usable || log_shard(l)->now_us < l->spare_due_us) {
        return;
    }
    uint64_t left_min = l->options.segment_size_max / SPARE_SHARE;
    if (seg->tail_pos + left_min >= l->options.segment_size_max &&
        space_has_spare(l->env.space, l->tier, l->fill_step)) {
        (void)log_birth_start(l, NULL); /* Without one, the roll waits for the zeros. */
    }
}

enum err log_append(struct log *l, const struct log_entry *entry, uint64_t *ret_index)
{
    assert(l->state == LOG_OPEN);
    assert_cmp(entry->base_offset, ==, l->next_offset);
    assert_cmp(entry->next_offset, >=, entry->base_offset);
    assert_cmp(entry->term, >=, l->last_term);
    assert(entry->type != ENTRY_NONE);

    if (l->is_failed || l->is_end_unknown) {
        return ERR_FAILED;
    }
    const size_t payload_size = entry->payload.size + entry->payload_rest.size;
    if (payload_size > ENTRY_PAYLOAD_SIZE_MAX) {
        return ERR_TOO_LARGE;
    }
    const uint64_t size = entry_size((uint32_t)payload_size);
    struct place where = find_place(l, entry, size);
    enum err e = check_room(l, &where, size, entry->type);
    if (e != ERR_OK) {
        return e;
    }
    adapt_page_size(l, &where);
    e = take_place(l, &where, size);
    if (e != ERR_OK) {
        return e;
    }
    write_entry(l, &where, entry);
    if (where.pos + size > (where.seg->is_usable ? where.seg->written_to : 0)) {
        log_room_promise(l);
    }
    *ret_index = l->last_index;

    prepare_spare(l, where.seg);
    log_fill_check(l);
    log_kick(l);
    return ERR_OK;
}

/* ---- writing ---- */

static void on_write_done(struct io_op *op)
{
    struct log_page *pg = container_of(op, struct log_page, op);
    struct log *l = pg->segment->log;
    assert(pg->is_writing);
    pg->is_writing = false;
    if (op->result != ERR_OK) {
        log_error(log_shard(l)->log,
                  "log_write_failed",
                  "log=%s err=%s errno=%d",
                  l->name,
                  err_name(op->result),
                  op->raw_errno);
    }
    if (op->result != ERR_OK || l->is_failed || flusher_is_failed(l->env.flusher)) {
        log_poke(l); /* No round will end any more: a close may wait for this write alone. */
    }
    flusher_write_done(l->env.flusher, op->result);
}

struct log_page *log_first_untaken(const struct log *l)
{
    struct log_page *found = NULL;
    for (struct list *n = l->pages.prev; n != &l->pages; n = n->prev) {
        struct log_page *pg = container_of(n, struct log_page, link);
        if (pg->taken == pg->used) {
            break;
        }
        found = pg;
    }
    return found;
}

static bool can_take(const struct log_page *pg)
{
    const struct log_segment *seg = pg->segment;
    return seg->is_usable && segment_file_is_open(seg) &&
           block_align_up(pg->pos + pg->used) <= seg->filled_to;
}

void log_kick(struct log *l)
{
    if (l->is_failed || l->state == LOG_OPENING || l->state == LOG_DELETING) {
        return;
    }
    const struct log_page *pg = log_first_untaken(l);
    if (pg != NULL && can_take(pg)) {
        flusher_ask(l->env.flusher, &l->client);
    }
}

static void take_page(struct log *l, struct log_page *pg)
{
    assert(!pg->is_writing); /* A round writes only after the writes of the one before ended. */
    uint32_t end = (uint32_t)block_align_up(pg->used);
    memset(pg->buf->data + pg->used, 0, end - pg->used);
    pg->used = end;
    if (pg->segment->tail_pos < pg->pos + end) {
        pg->segment->tail_pos = pg->pos + end;
    }
    pg->op = (struct io_op){
        .kind = IO_WRITE,
        .fd = pg->segment->file.fd,
        .buf = pg->buf->data + pg->taken,
        .size = end - pg->taken,
        .pos = pg->pos + pg->taken,
        .on_done = on_write_done,
    };
    pg->taken = end;
    pg->is_writing = true;
    l->taken_index = pg->last_index;
    l->stats.writes++;
    l->stats.written_bytes += pg->op.size;
    flusher_write_started(l->env.flusher, pg->op.fd);
    io_submit(&log_shard(l)->io, &pg->op);
}

static void on_round_write(struct flush_client *c)
{
    struct log *l = container_of(c, struct log, client);
    assert_cmp(l->rounds_count, <, LOG_ROUNDS_MAX);
    struct log_round round = {
        .index = l->flushed_index,
        .offset = l->flushed_offset,
        .backlog_end = l->flushed_size,
    };
    if (l->rounds_count > 0) {
        round = l->rounds[l->rounds_count - 1];
    }
    struct log_page *pg = l->is_failed ? NULL : log_first_untaken(l);
    while (pg != NULL && can_take(pg)) {
        take_page(l, pg);
        round = (struct log_round){
            .index = pg->last_index,
            .offset = pg->next_offset,
            .backlog_end = pg->appended_end,
        };
        pg = pg->link.next == &l->pages ? NULL : container_of(pg->link.next, struct log_page, link);
    }
    l->rounds[l->rounds_count++] = round;
    log_gate_round_begun(&l->env.shared->gate);
    log_fill_check(l);
}

static struct log_page *first_dirty(const struct log *l)
{
    struct log_page *found = NULL;
    for (struct list *n = l->pages.prev; n != &l->pages; n = n->prev) {
        struct log_page *pg = container_of(n, struct log_page, link);
        if (!pg->is_dirty) {
            break;
        }
        found = pg;
    }
    return found;
}

/* Pages whose last entry is durable become cache. */
static void clean_pages(struct log *l)
{
    struct log_page *pg = first_dirty(l);
    while (pg != NULL && pg->last_index <= l->flushed_index) {
        struct log_page *next =
            pg->link.next == &l->pages ? NULL : container_of(pg->link.next, struct log_page, link);
        log_page_set_clean(pg);
        pg = next;
    }
}

static void on_round_flushed(struct flush_client *c)
{
    struct log *l = container_of(c, struct log, client);
    assert(l->rounds_count > 0);
    const struct log_round round = l->rounds[0];
    l->rounds_count--;
    memmove(&l->rounds[0], &l->rounds[1], l->rounds_count * sizeof(l->rounds[0]));
    log_gate_round_ended(&l->env.shared->gate);
    if (l->is_failed) {
        log_poke(l);
        return;
    }
    assert_cmp(round.index, >=, l->flushed_index);
    bool is_news = round.index > l->flushed_index;
    l->flushed_index = round.index;
    l->flushed_offset = round.offset;
    l->flushed_size = round.backlog_end;
    clean_pages(l);
    log_kick(l);
    if (is_news) {
        l->stats.flushes++;
        log_shared_touch(l->env.shared, l);
        log_index_seal(l);
        if (l->state == LOG_OPEN || l->state == LOG_CUTTING) {
            l->callbacks->on_flushed(l->context, round.index);
        }
        log_checkpoint_check(l);
    }
    log_room_offer(l);
    log_poke(l);
}

const struct flush_client_ops LOG_FLUSH_CLIENT_OPS = {
    .write = on_round_write,
    .on_flushed = on_round_flushed,
};
