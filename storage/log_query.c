/* ListOffsets by time (KIP-79, KIP-734): a search over the stretches of the segments' indexes,
 * which say how late their entries are, and then in the batches of the log itself.
 *
 *   WAIT_START -> [WAIT_INDEX] -> WAIT_WALK -> [WAIT_INDEX -> WAIT_WALK ...] -> done
 *
 *  1. Segments, and stretches of them, that cannot hold what is wanted are passed over unread.
 *  2. The largest timestamp is found first; segments and stretches that lie whole in the range say
 *     theirs, those at its two ends are walked. Then the first record that has it is searched for
 * as any other.
 *  3. Answers come from records alone. An index whose stretch holds a later entry than it says, or
 *     none as late, is dropped, and the search begins anew with one made from the log.
 */
#include <stdlib.h>

#include "core/reached.h"
#include "storage/batch.h"
#include "storage/log_priv.h"

enum search_state {
    SEARCH_WAIT_START,
    SEARCH_WAIT_INDEX,
    SEARCH_WAIT_WALK,
    SEARCH_GOES_ON, /* Nothing is waited for. */
    SEARCH_DONE,
};

struct time_search {
    enum search_state state;
    bool is_running; /* search_run is on the stack, and goes on by itself. */
    struct log_time_query *query;
    struct log_walk walk;
    struct segment_wait index_wait;

    int64_t start_offset;
    bool is_for_largest;    /* timestamp is the largest one met so far. */
    int64_t timestamp;      /* Records at or after it are wanted. */
    uint64_t from_index;    /* Entries before it are done with. */
    bool was_doubted;       /* An index turned out wrong since the search began. */
    uint64_t retired_count; /* Of the log's segments, when the largest was looked for. */

    /* Being walked. */
    struct segment_stretch stretch;
    uint64_t start_index; /* The entry that the index names. */
    bool is_by_point;     /* It stands in an index file. */
    bool is_whole;        /* The stretch lies in the range, and no hole was met. */
    bool is_contradicted; /* An entry is later than the stretch says. */
    bool is_fruitful;     /* One was as late as wanted. */
    bool is_at_range_end; /* One reaches beyond end_offset. */
};

static struct time_search *search_of(struct log_walk *w)
{
    return container_of(w, struct time_search, walk);
}

static void search_run(struct time_search *ts);

static void search_go_on(struct time_search *ts)
{
    ts->state = SEARCH_GOES_ON;
    if (!ts->is_running) {
        search_run(ts);
    }
}

static void search_end(struct time_search *ts, enum err e)
{
    ts->query->result = e;
    ts->state = SEARCH_DONE;
    if (!ts->is_running) {
        search_run(ts);
    }
}

/* From the first entry on. */
static void search_begin(struct time_search *ts, bool is_for_largest, int64_t timestamp)
{
    ts->is_for_largest = is_for_largest;
    ts->timestamp = timestamp;
    ts->from_index = 0;
    if (is_for_largest) {
        ts->retired_count = ts->query->log->retired_count;
    }
}

/* What an entry must have at least to be of interest. */
static int64_t wanted_timestamp(const struct time_search *ts)
{
    bool is_later_wanted = ts->is_for_largest && ts->timestamp < INT64_MAX;
    return is_later_wanted ? ts->timestamp + 1 : ts->timestamp;
}

/* ---- in a batch ---- */

/* Of the records in the range: the first at or after what is wanted, into the answer, or, if the
 * largest is, all of them. ERR_NOT_FOUND: go on behind the batch. */
static enum err
judge_records(struct time_search *ts, const struct batch_header *h, struct slice records)
{
    struct log_time_query *q = ts->query;
    struct record_cursor cursor;
    record_cursor_init(&cursor, h, records);
    for (;;) {
        struct record record;
        enum err e = record_next(&cursor, &record);
        if (e != ERR_OK) {
            return e == ERR_EOF ? ERR_NOT_FOUND : ERR_CORRUPT;
        }
        if (record.offset < ts->start_offset || record.timestamp < wanted_timestamp(ts)) {
            continue;
        }
        if (!ts->is_for_largest) {
            q->ret_offset = record.offset;
            q->ret_timestamp = record.timestamp;
            return ERR_OK;
        }
        ts->timestamp = record.timestamp;
    }
}

static enum err judge_batch(struct time_search *ts, struct slice batch)
{
    struct batch_header h;
    if (batch_header_decode(batch, &h) != ERR_OK) {
        return ERR_CORRUPT;
    }
    /* As far as any produced batch was followed when it was checked. */
    const size_t size_max = batch_records_size_max(ENTRY_PAYLOAD_SIZE_MAX);
    struct wbuf w;
    wbuf_init(&w, size_max);
    struct slice records;
    enum err e = batch_records(batch, size_max, &w, &records);
    if (e == ERR_OK) {
        e = judge_records(ts, &h, records);
    } else if (e != ERR_BUSY) {
        e = ERR_CORRUPT;
    }
    wbuf_done(&w);
    return e;
}

/* ---- in a stretch ---- */

static enum err judge_entry(struct time_search *ts, const struct scan_result *entry)
{
    const struct entry_header *h = &entry->header;
    if (ts->is_for_largest && h->base_offset >= ts->start_offset) {
        ts->timestamp = h->max_timestamp;
        return ERR_NOT_FOUND;
    }
    ts->query->ret_term = h->term;
    return judge_batch(ts, entry->payload);
}

static enum walk_verdict on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct time_search *ts = search_of(w);
    const struct entry_header *h = &entry->header;
    if (h->index >= ts->stretch.end_index) {
        return WALK_STOP;
    }
    if (h->next_offset > ts->query->end_offset) {
        ts->is_at_range_end = true;
        return WALK_STOP;
    }
    if (h->max_timestamp > ts->stretch.max_timestamp) {
        ts->is_contradicted = true;
        return WALK_STOP;
    }
    bool is_of_interest = h->type == ENTRY_DATA && h->next_offset > ts->start_offset &&
                          h->max_timestamp >= wanted_timestamp(ts);
    if (is_of_interest) {
        ts->is_fruitful = true;
        enum err e = judge_entry(ts, entry);
        if (e != ERR_NOT_FOUND) {
            ts->query->result = e;
            ts->state = SEARCH_DONE;
            return WALK_STOP;
        }
    }
    return entry_last_index(h) + 1 >= ts->stretch.end_index ? WALK_STOP : WALK_ON;
}

/* The index is wrong: from the start again, with what the log says. */
static void doubt(struct time_search *ts)
{
    reached(log_shard(ts->walk.log), "log_time_index_doubted");
    (void)log_index_doubt(ts->walk.segment); /* Another search may have been there before. */
    ts->was_doubted = true;
    bool is_for_largest = ts->query->timestamp == LOG_TIME_LARGEST;
    search_begin(ts, is_for_largest, is_for_largest ? -1 : ts->query->timestamp);
    search_go_on(ts);
}

static void stretch_ends(struct time_search *ts)
{
    bool is_barren = ts->is_whole && !ts->is_fruitful;
    if (ts->is_by_point && (ts->is_contradicted || is_barren)) {
        doubt(ts);
        return;
    }
    assert(!ts->is_contradicted); /* What memory says comes from the log itself. */
    ts->from_index = ts->is_at_range_end ? UINT64_MAX : ts->stretch.end_index;
    search_go_on(ts);
}

/* The bytes are not the next entry. */
static void meet_damage(struct time_search *ts)
{
    struct log_walk *w = &ts->walk;
    if (ts->is_by_point && w->scan.index == ts->start_index) {
        doubt(ts);
    } else {
        log_report_corruption(w);
        search_end(ts, ERR_CORRUPT);
    }
}

/* Zeros where more entries must be end the walk of a segment, too. */
static bool is_at_stretch_end(const struct time_search *ts)
{
    const struct log_walk *w = &ts->walk;
    return w->scan.index >= ts->stretch.end_index || w->scan.index > w->log->last_index;
}

static void on_end(struct log_walk *w, enum walk_reason reason)
{
    struct time_search *ts = search_of(w);
    if (ts->state == SEARCH_DONE) {
        search_end(ts, ts->query->result);
        return;
    }
    switch (reason) {
    case WALK_STOPPED:
        stretch_ends(ts);
        break;
    case WALK_AT_END:
        if (is_at_stretch_end(ts)) {
            stretch_ends(ts);
        } else {
            w->result.fault = ENTRY_FAULT_ZERO;
            meet_damage(ts);
        }
        break;
    case WALK_BAD:
        meet_damage(ts);
        break;
    case WALK_DAMAGE:
        ts->is_whole = false;
        log_walk_leap(w); /* The first readable one is the best answer there is. */
        log_walk_run(w);
        break;
    case WALK_GONE: /* Not of one segment. */
    case WALK_ERROR:
        search_end(ts, w->error);
        break;
    }
}

/* ---- over the stretches ---- */

/* [first, end) of what is looked at. */
struct offset_range {
    int64_t first;
    int64_t end;
};

static bool is_in_range(const struct time_search *ts, const struct offset_range *r)
{
    return r->first >= ts->start_offset && r->end <= ts->query->end_offset;
}

static void walk_stretch(struct time_search *ts, struct log_segment *seg)
{
    struct log_walk *w = &ts->walk;
    ts->state = SEARCH_WAIT_WALK;
    log_walk_seek_point(w, seg, ts->stretch.start);
    ts->start_index = w->scan.index;
    ts->is_by_point = ts->stretch.start != NULL && seg->is_index_loaded;
    ts->is_contradicted = false;
    ts->is_fruitful = false;
    ts->is_at_range_end = false;
    log_walk_run(w);
}

static void on_index_ready(struct segment_wait *wait, enum err e)
{
    (void)e;
    search_go_on(container_of(wait, struct time_search, index_wait));
}

/* The next stretch of seg. */
static void search_segment(struct time_search *ts, struct log_segment *seg, int64_t seg_end)
{
    log_walk_seek_start(&ts->walk, seg); /* So it is held while its index is brought. */
    if (!log_index_want(seg, &ts->index_wait)) {
        ts->state = SEARCH_WAIT_INDEX;
        return;
    }
    struct segment_stretch *stretch = &ts->stretch;
    const struct log_segment *next = log_segment_after(seg);
    const uint64_t next_index = next == NULL ? UINT64_MAX : next->base.index;
    uint64_t from_index = ts->from_index > seg->base.index ? ts->from_index : seg->base.index;
    if (!segment_points_find_late(&seg->points, from_index, wanted_timestamp(ts), stretch)) {
        ts->from_index = next_index;
        return;
    }
    stretch->end_index = stretch->end_index == UINT64_MAX ? next_index : stretch->end_index;
    const struct offset_range r = {
        .first = stretch->start == NULL ? seg->base.offset : stretch->start->offset,
        .end = stretch->end_offset < seg_end ? stretch->end_offset : seg_end,
    };
    ts->is_whole = is_in_range(ts, &r);
    if (r.end <= ts->start_offset) {
        ts->from_index = stretch->end_index;
    } else if (ts->is_for_largest && ts->is_whole &&
               stretch->max_timestamp != SEGMENT_TIME_UNKNOWN) {
        ts->timestamp = stretch->max_timestamp;
        ts->from_index = stretch->end_index;
    } else {
        walk_stretch(ts, seg);
    }
}

/* What the largest was found by is not what there is any more: an index that was wrong, or segments
 * that compaction or the log start let go of. */
static bool is_largest_outdated(const struct time_search *ts)
{
    return ts->was_doubted || ts->retired_count != ts->query->log->retired_count;
}

/* All segments have been looked at. */
static void search_is_through(struct time_search *ts)
{
    bool was_for_largest = ts->query->timestamp == LOG_TIME_LARGEST;
    if (ts->is_for_largest) {
        if (ts->timestamp >= 0) {
            search_begin(ts, false, ts->timestamp);
        } else {
            search_end(ts, ERR_OK); /* No record has a timestamp. */
        }
    } else if (was_for_largest && is_largest_outdated(ts)) {
        reached(log_shard(ts->walk.log), "log_largest_time_outdated");
        ts->was_doubted = false;
        search_begin(ts, true, -1);
    } else {
        search_end(ts, ERR_OK);
    }
}

/* The segment that from_index stands in, or the first one; NULL behind the last entry. */
static struct log_segment *current_segment(const struct time_search *ts)
{
    const struct log *l = ts->query->log;
    struct log_segment *found = NULL;
    if (ts->from_index > l->last_index) {
        return NULL;
    }
    list_for_each (n, &l->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (found != NULL && seg->base.index > ts->from_index) {
            break;
        }
        found = seg;
    }
    return found;
}

static void search_step(struct time_search *ts)
{
    const struct log *l = ts->query->log;
    struct log_segment *seg = current_segment(ts);
    if (seg == NULL || seg->base.offset >= ts->query->end_offset) {
        search_is_through(ts);
        return;
    }
    const struct log_segment *next = log_segment_after(seg);
    const uint64_t next_index = next == NULL ? UINT64_MAX : next->base.index;
    const struct offset_range r = {
        .first = seg->base.offset,
        .end = next == NULL ? l->next_offset : next->base.offset,
    };
    if (r.end <= ts->start_offset || seg->max_timestamp < wanted_timestamp(ts)) {
        ts->from_index = next_index;
    } else if (ts->is_for_largest && is_in_range(ts, &r)) {
        ts->timestamp = seg->max_timestamp;
        ts->from_index = next_index;
    } else {
        search_segment(ts, seg, r.end);
    }
}

static void search_run(struct time_search *ts)
{
    ts->is_running = true;
    while (ts->state == SEARCH_GOES_ON) {
        search_step(ts);
    }
    ts->is_running = false;
    if (ts->state != SEARCH_DONE) {
        return;
    }
    struct log_time_query *q = ts->query;
    log_walk_done(&ts->walk);
    free(ts);
    q->state = NULL;
    q->on_done(q);
}

static void on_start(struct log_walk *w)
{
    struct time_search *ts = search_of(w);
    ts->start_offset = log_start_offset(w->log);
    search_go_on(ts);
}

void log_time_query_begin(struct log *l, struct log_time_query *q)
{
    assert(l->state != LOG_OPENING);
    assert(l->end == NULL);
    q->log = l;
    q->result = ERR_OK;
    q->ret_offset = -1;
    q->ret_timestamp = -1;
    q->ret_term = 0;

    struct time_search *ts = calloc(1, sizeof(*ts));
    if (ts == NULL) {
        panic("no memory for a query");
    }
    ts->query = q;
    ts->state = SEARCH_WAIT_START;
    ts->index_wait.on_ready = on_index_ready;
    bool is_for_largest = q->timestamp == LOG_TIME_LARGEST;
    search_begin(ts, is_for_largest, is_for_largest ? -1 : q->timestamp);
    q->state = ts;
    log_walk_init(&ts->walk, l);
    ts->walk.is_one_segment = true;
    ts->walk.is_for_client = true;
    ts->walk.on_start = on_start;
    ts->walk.on_entry = on_entry;
    ts->walk.on_end = on_end;
    log_walk_park(&ts->walk);
}
