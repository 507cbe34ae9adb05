#include <stdlib.h>
#include <string.h>

#include "core/reached.h"
#include "storage/log_ahead_priv.h"
#include "storage/log_priv.h"

static struct log_shared *shared_of(const struct ahead_stream *st)
{
    return st->segment->log->env.shared;
}

static struct ahead_chunk *first_chunk(const struct ahead_stream *st)
{
    return list_is_empty(&st->chunks) ? NULL
                                      : container_of(st->chunks.next, struct ahead_chunk, link);
}

static uint64_t chunk_end(const struct ahead_chunk *c)
{
    return c->pos + c->size;
}

/* ---- chunks ---- */

static void free_chunk(struct ahead_chunk *c)
{
    assert(!c->is_filling);
    struct ahead_stream *st = c->stream;
    struct log_shared_stats *stats = &shared_of(st)->stats;
    stats->ahead_size -= c->buf->capacity;
    if (c->is_taken) {
        stats->ahead_taken_bytes += c->size;
    } else if (c->is_read) {
        stats->ahead_wasted_bytes += c->size;
    }
    st->chunks_count--;
    st->chunks_size -= c->buf->capacity;
    list_remove(&c->link);
    buf_unref(c->buf); /* A walk may still have it as its window. */
    free(c);
}

/* Those that have not had their turn at the gate need not come any more, unless the reader waits:
 * it is told by what comes. */
static void call_back(struct ahead_stream *st)
{
    if (st->is_waited_for) {
        return;
    }
    list_for_each_safe (n, &st->chunks) {
        struct ahead_chunk *c = container_of(n, struct ahead_chunk, link);
        if (gate_is_waiting(&c->gate)) {
            log_gate_cancel(&shared_of(st)->gate, &c->gate);
            c->is_filling = false;
            st->fills_count--;
            segment_file_unuse(st->segment);
        }
    }
}

/* Those in front of pos, which the reader has passed; those on their way are passed later. */
static void free_passed(struct ahead_stream *st, uint64_t pos)
{
    for (struct ahead_chunk *c = first_chunk(st);
         c != NULL && chunk_end(c) <= pos && !c->is_filling;
         c = first_chunk(st)) {
        free_chunk(c);
    }
}

static void free_chunks(struct ahead_stream *st)
{
    list_for_each_safe (n, &st->chunks) {
        struct ahead_chunk *c = container_of(n, struct ahead_chunk, link);
        if (!c->is_filling) {
            free_chunk(c);
        }
    }
}

/* ---- the life of a stream ---- */

static bool is_reader(const struct ahead_stream *st)
{
    return st->runs_count > 0;
}

static void free_if_over(struct ahead_stream *st)
{
    if (!st->is_ended || st->walk != NULL || st->fills_count > 0) {
        return;
    }
    assert(list_is_empty(&st->chunks));
    struct log *l = st->segment->log;
    list_remove(&st->log_link);
    log_segment_release(st->segment);
    free(st);
    if (l->cut != NULL || l->end != NULL) {
        log_poke(l);
    }
}

/* May free st. */
static void end_stream(struct ahead_stream *st)
{
    if (!st->is_ended) {
        struct log_ahead *a = &shared_of(st)->ahead;
        st->is_ended = true;
        list_remove(&st->link);
        a->streams_count--;
        a->readers_count -= is_reader(st) ? 1 : 0;
        call_back(st);
    }
    free_chunks(st);
    free_if_over(st);
}

static void on_idle_timer(struct timer *t)
{
    struct log_shared *ls = container_of(t, struct log_shared, ahead.idle_timer);
    list_for_each_safe (n, &ls->ahead.streams) {
        struct ahead_stream *st = container_of(n, struct ahead_stream, link);
        const uint64_t over_us = st->used_us + LOG_AHEAD_IDLE_US;
        if (over_us > ls->s->now_us) {
            timer_arm(&ls->s->timers, t, over_us);
            return;
        }
        if (st->walk != NULL) {
            st->used_us = ls->s->now_us; /* It goes to the end of the list when it leaves. */
            continue;
        }
        reached(ls->s, "log_ahead_idle");
        end_stream(st);
    }
    if (!list_is_empty(&ls->ahead.streams)) {
        shard_timer_arm(ls->s, t, LOG_AHEAD_IDLE_US);
    }
}

/* The one unused for longest makes room. False: all are in use. */
static bool make_room(struct log_ahead *a)
{
    if (a->streams_count < LOG_AHEAD_STREAMS_MAX) {
        return true;
    }
    list_for_each (n, &a->streams) {
        struct ahead_stream *st = container_of(n, struct ahead_stream, link);
        if (st->walk == NULL) {
            end_stream(st);
            return true;
        }
    }
    return false;
}

static struct ahead_stream *new_stream(struct log_segment *seg)
{
    struct log *l = seg->log;
    struct log_ahead *a = &l->env.shared->ahead;
    struct ahead_stream *st = make_room(a) ? calloc(1, sizeof(*st)) : NULL;
    if (st == NULL) {
        return NULL;
    }
    st->segment = seg;
    log_segment_hold(seg);
    list_init(&st->chunks);
    list_push_back(&a->streams, &st->link);
    list_push_back(&l->ahead_streams, &st->log_link);
    a->streams_count++;
    return st;
}

/* ---- filling ---- */

static void on_filled(struct io_op *op)
{
    struct ahead_chunk *c = container_of(op, struct ahead_chunk, op);
    struct ahead_stream *st = c->stream;
    struct log_segment *seg = st->segment;
    c->is_filling = false;
    c->is_read = true;
    log_gate_leave(&shared_of(st)->gate, c->size);
    shared_of(st)->stats.ahead_read_bytes += op->done_size;
    seg->log->stats.disk_read_bytes += op->done_size;
    segment_file_unuse(seg);
    /* Before the walk goes on, which may leave st behind the segment and take it to the next. */
    st->fills_count--;
    struct log_walk *waiting = st->is_waited_for ? st->walk : NULL;
    st->is_waited_for = false;
    if (op->result != ERR_OK || st->is_ended) {
        end_stream(st); /* What the file does not give readers find out for themselves. */
    }
    if (waiting != NULL) {
        log_walk_resume(waiting); /* May free st, as end_stream may without it. */
    }
}

static uint64_t share_of(const struct log_shared *ls)
{
    const uint32_t readers_count = ls->ahead.readers_count;
    return ls->options.ahead_size_max / (readers_count > 0 ? readers_count : 1);
}

/* Half of the share, so that one is read while the other is taken. */
static uint64_t chunk_size_for(const struct log_shared *ls, uint64_t share)
{
    const uint64_t size_max = log_gate_size(&ls->gate);
    uint64_t size = ls->options.ahead_chunk_size_max;
    size = size < size_max ? size : size_max;
    while (size > share / 2 && size > LOG_AHEAD_CHUNK_SIZE_MIN) {
        size /= 2;
    }
    return size;
}

static bool may_fill(const struct ahead_stream *st)
{
    const struct log_segment *seg = st->segment;
    const struct log *l = seg->log;
    return is_reader(st) && !st->is_ended && l->state == LOG_OPEN && l->end == NULL &&
           !l->is_failed && segment_file_is_open(seg);
}

static void on_gate_turn(struct gate_wait *gate)
{
    struct ahead_chunk *c = container_of(gate, struct ahead_chunk, gate);
    io_submit(&shared_of(c->stream)->s->io, &c->op);
}

static bool start_fill(struct ahead_stream *st, uint64_t size)
{
    struct log_segment *seg = st->segment;
    struct log_shared *ls = shared_of(st);
    struct ahead_chunk *c = calloc(1, sizeof(*c));
    if (c == NULL) {
        return false;
    }
    c->buf = buf_alloc(ls->s->bufs, size, BUF_CLIENT);
    if (c->buf == NULL) {
        free(c);
        return false;
    }
    c->stream = st;
    c->pos = st->next_pos;
    c->size = size;
    c->is_filling = true;
    list_push_back(&st->chunks, &c->link);
    st->next_pos += size;
    st->chunks_count++;
    st->chunks_size += c->buf->capacity;
    st->fills_count++;
    ls->stats.ahead_size += c->buf->capacity;
    segment_file_use(seg);
    c->op = (struct io_op){
        .kind = IO_READ,
        .fd = seg->file.fd,
        .buf = c->buf->data,
        .size = size,
        .pos = c->pos,
        .on_done = on_filled,
    };
    gate_wait_init(&c->gate, on_gate_turn);
    if (log_gate_enter(&ls->gate, &c->gate, size, false)) {
        io_submit(&ls->s->io, &c->op);
    }
    return true;
}

/* A reader gets one chunk more with each read, up to its share. */
static void fill(struct ahead_stream *st)
{
    const struct log_shared *ls = shared_of(st);
    const uint64_t share = share_of(ls);
    const uint64_t chunk_size = chunk_size_for(ls, share);
    const uint32_t chunks_max =
        st->runs_count < LOG_AHEAD_CHUNKS_MAX ? st->runs_count : LOG_AHEAD_CHUNKS_MAX;
    while (may_fill(st) && st->chunks_count < chunks_max && st->chunks_size + chunk_size <= share &&
           ls->stats.ahead_size + chunk_size <= ls->options.ahead_size_max) {
        const uint64_t end_pos = log_disk_end(st->segment, st->next_pos);
        if (end_pos <= st->next_pos) {
            break; /* The rest is in memory, or there is none. */
        }
        const uint64_t left = end_pos - st->next_pos;
        if (!start_fill(st, left < chunk_size ? left : chunk_size)) {
            break;
        }
    }
}

/* ---- reading ---- */

bool log_ahead_join(struct log_walk *w, int64_t offset)
{
    struct log *l = w->log;
    assert(w->ahead == NULL); /* Nobody else would let go of it. */
    list_for_each (n, &l->ahead_streams) {
        struct ahead_stream *st = container_of(n, struct ahead_stream, log_link);
        if (st->offset != offset || st->walk != NULL || st->is_ended) {
            continue;
        }
        st->walk = w;
        w->ahead = st;
        log_walk_seek_start(w, st->segment);
        w->scan.pos = st->pos;
        w->scan.index = st->index;
        w->scan.offset = offset;
        w->scan.previous_id = st->previous_id;
        w->scan.has_previous = true;
        w->scan.term = st->term;
        segment_scan_seek(&w->scan);
        return true;
    }
    return false;
}

/* The chunk that holds pos. NULL: there is none. */
static struct ahead_chunk *chunk_at(const struct ahead_stream *st, uint64_t pos)
{
    list_for_each (n, &st->chunks) {
        struct ahead_chunk *c = container_of(n, struct ahead_chunk, link);
        if (c->pos <= pos && pos < chunk_end(c)) {
            return c;
        }
    }
    return NULL;
}

/* The last chunk that [pos, end) reaches into, NULL if they do not hold all of it; *ret_wait: some
 * of it is on its way. */
static struct ahead_chunk *
last_chunk(const struct ahead_stream *st, struct ahead_chunk *first, uint64_t end, bool *ret_wait)
{
    struct ahead_chunk *c = first;
    *ret_wait = c->is_filling;
    while (chunk_end(c) < end) {
        if (c->link.next == &st->chunks) {
            return NULL;
        }
        struct ahead_chunk *next = container_of(c->link.next, struct ahead_chunk, link);
        if (next->pos != chunk_end(c)) {
            return NULL;
        }
        c = next;
        *ret_wait |= c->is_filling;
    }
    return c;
}

/* The reader is there before them. */
static void
hurry(struct ahead_stream *st, struct ahead_chunk *first, const struct ahead_chunk *last)
{
    for (struct ahead_chunk *c = first;; c = container_of(c->link.next, struct ahead_chunk, link)) {
        log_gate_hurry(&shared_of(st)->gate, &c->gate);
        if (c == last) {
            return;
        }
    }
}

/* An entry that lies in more than one chunk is put together. */
static bool join_chunks(struct log_walk *w, struct ahead_chunk *first, struct ahead_chunk *last)
{
    struct buf *b = buf_alloc(log_shard(w->log)->bufs, w->need_size, BUF_CLIENT);
    if (b == NULL) {
        return false;
    }
    uint64_t done = 0;
    for (struct ahead_chunk *c = first; done < w->need_size;
         c = container_of(c->link.next, struct ahead_chunk, link)) {
        const uint64_t from = w->need_pos + done - c->pos;
        const uint64_t left = w->need_size - done;
        const uint64_t size = c->size - from < left ? c->size - from : left;
        memcpy(b->data + done, c->buf->data + from, size);
        c->is_taken = true;
        done += size;
        assert(c != last || done == w->need_size);
    }
    reached(log_shard(w->log), "log_ahead_joins_chunks");
    log_walk_set_window(w, b, w->need_pos, w->need_size);
    buf_unref(b);
    return true;
}

enum ahead_answer log_ahead_take(struct log_walk *w)
{
    struct ahead_stream *st = w->ahead;
    if (st == NULL || st->is_ended || st->segment != w->segment) {
        return AHEAD_NONE;
    }
    free_passed(st, w->need_pos);
    struct ahead_chunk *first = chunk_at(st, w->need_pos);
    if (first == NULL) {
        return AHEAD_NONE;
    }
    bool is_wait;
    struct ahead_chunk *last = last_chunk(st, first, w->need_pos + w->need_size, &is_wait);
    if (last == NULL) {
        return AHEAD_NONE;
    }
    if (is_wait) {
        st->is_waited_for = true;
        hurry(st, first, last);
        fill(st);
        return AHEAD_WAIT;
    }
    if (first == last) {
        first->is_taken = true;
        log_walk_set_window(w, first->buf, first->pos, first->size);
    } else if (!join_chunks(w, first, last)) {
        return AHEAD_NONE;
    }
    fill(st);
    return AHEAD_READY;
}

/* ---- after a read ---- */

static void stand_in(struct ahead_stream *st, struct log_segment *seg)
{
    if (st->segment == seg) {
        return;
    }
    log_segment_hold(seg);
    log_segment_release(st->segment);
    st->segment = seg;
}

static void move_to(struct ahead_stream *st, const struct segment_scan *at, uint64_t at_pos)
{
    st->offset = at->offset;
    st->pos = at_pos;
    st->index = at->index;
    st->previous_id = at->previous_id;
    st->term = at->term;
    const uint64_t pos = block_align_down(at_pos);
    free_passed(st, pos);
    if (list_is_empty(&st->chunks) || st->next_pos < pos) {
        st->next_pos = pos;
    }
}

/* The reader was here before, or could be here again. */
static void touch(struct ahead_stream *st)
{
    struct log_shared *ls = shared_of(st);
    st->used_us = ls->s->now_us;
    list_remove(&st->link);
    list_push_back(&ls->ahead.streams, &st->link);
    if (!timer_is_armed(&ls->ahead.idle_timer)) {
        shard_timer_arm(ls->s, &ls->ahead.idle_timer, LOG_AHEAD_IDLE_US);
    }
}

/* Where a reader comes next that has all in front of *pos of seg: the next segment, if that is
 * where it goes on. NULL: not on disk. */
static struct log_segment *
place_of(struct log_segment *seg, const struct segment_scan *at, uint64_t *pos)
{
    const struct log *l = seg->log;
    if (seg->is_retired || l->state != LOG_OPEN || l->end != NULL ||
        l->env.shared->options.ahead_size_max == 0) {
        return NULL;
    }
    struct log_segment *next = log_segment_after(seg);
    if (next == NULL || next->base.index != at->index) {
        *pos = at->pos;
        return log_disk_end(seg, block_align_down(at->pos)) > at->pos ? seg : NULL;
    }
    *pos = SEGMENT_HEADER_SIZE; /* What is left of seg is padding. */
    return next->is_usable && log_disk_end(next, *pos) > *pos ? next : NULL;
}

/* st as it has to be for a reader that goes on in seg; NULL: a new one is needed. */
static struct ahead_stream *keep_stream(struct ahead_stream *st, struct log_segment *seg)
{
    if (st->is_ended || (st->segment != seg && st->fills_count > 0)) {
        end_stream(st);
        return NULL;
    }
    if (st->segment != seg) {
        free_chunks(st);
        stand_in(st, seg);
        reached(log_shard(seg->log), "log_ahead_next_segment");
    }
    shared_of(st)->ahead.readers_count += is_reader(st) ? 0 : 1;
    st->runs_count++;
    return st;
}

void log_ahead_leave(struct log_walk *w, const struct segment_scan *at)
{
    struct ahead_stream *st = w->ahead;
    w->ahead = NULL;
    if (st != NULL) {
        st->walk = NULL;
        st->is_waited_for = false;
    }
    uint64_t pos = 0;
    struct log_segment *seg = at == NULL ? NULL : place_of(w->segment, at, &pos);
    if (seg == NULL) {
        if (st != NULL) {
            end_stream(st);
        }
        return;
    }
    if (st != NULL) {
        st = keep_stream(st, seg);
    }
    if (st == NULL) {
        st = new_stream(seg);
    }
    if (st != NULL) {
        move_to(st, at, pos);
        touch(st);
        fill(st);
    }
}

/* ---- ends ---- */

void log_ahead_forget(struct log_segment *seg)
{
    list_for_each_safe (n, &seg->log->ahead_streams) {
        struct ahead_stream *st = container_of(n, struct ahead_stream, log_link);
        if (st->segment == seg && !st->is_ended) {
            reached(log_shard(seg->log), "log_ahead_segment_retired");
            end_stream(st);
        }
    }
}

bool log_ahead_stop(struct log *l)
{
    list_for_each_safe (n, &l->ahead_streams) {
        end_stream(container_of(n, struct ahead_stream, log_link));
    }
    return list_is_empty(&l->ahead_streams);
}

bool log_ahead_give_back(struct log_shared *ls, size_t size)
{
    const uint64_t before = ls->stats.ahead_size;
    list_for_each_safe (n, &ls->ahead.streams) {
        struct ahead_stream *st = container_of(n, struct ahead_stream, link);
        if (before - ls->stats.ahead_size >= size) {
            break;
        }
        if (st->walk == NULL) {
            end_stream(st);
        }
    }
    return ls->stats.ahead_size < before;
}

void log_ahead_init(struct log_shared *ls)
{
    list_init(&ls->ahead.streams);
    timer_init(&ls->ahead.idle_timer, on_idle_timer);
}

void log_ahead_done(struct log_shared *ls)
{
    assert(list_is_empty(&ls->ahead.streams));
    assert_cmp(ls->stats.ahead_size, ==, 0);
    timer_cancel(&ls->s->timers, &ls->ahead.idle_timer);
}
