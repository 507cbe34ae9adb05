/* ListOffsets by time: the first batch whose latest record is late enough, then the first such
 * record in it (KIP-79). */
#include <stdlib.h>

#include "storage/batch.h"
#include "storage/log_priv.h"

enum {
    QUERY_RECORDS_SIZE_MAX = 64 << 20, /* Of one batch, decompressed. */
};

struct query_walk {
    struct log_walk walk;
    struct log_time_query *query;
    struct log_segment *seg; /* Where it starts. */
    struct segment_wait index_wait;
    uint64_t start_index; /* The entry that the index names. */
    bool is_by_point;     /* Started at a point of an index file. */
};

static struct query_walk *query_walk_of(struct log_walk *w)
{
    return container_of(w, struct query_walk, walk);
}

static void finish(struct query_walk *qw, enum err e)
{
    struct log_time_query *q = qw->query;
    log_walk_done(&qw->walk);
    free(qw);
    q->state = NULL;
    q->result = e;
    q->on_done(q);
}

/* The first record at or after q->timestamp in a batch that has one. */
static enum err find_record(struct log_time_query *q, struct slice batch)
{
    struct batch_header h;
    enum err e = batch_header_decode(batch, &h);
    if (e != ERR_OK) {
        return ERR_CORRUPT;
    }
    q->ret_offset = h.base_offset;
    q->ret_timestamp = h.max_timestamp;
    if ((h.attributes & BATCH_LOG_APPEND_TIME) != 0) {
        return ERR_OK; /* All records carry the same time. */
    }
    struct wbuf w;
    wbuf_init(&w, QUERY_RECORDS_SIZE_MAX);
    struct slice records;
    e = batch_records(batch, QUERY_RECORDS_SIZE_MAX, &w, &records);
    if (e == ERR_OK) {
        struct record_cursor cursor;
        struct record record;
        record_cursor_init(&cursor, &h, records);
        while (record_next(&cursor, &record) == ERR_OK) {
            if (record.timestamp >= q->timestamp) {
                q->ret_offset = record.offset;
                q->ret_timestamp = record.timestamp;
                break;
            }
        }
    }
    /* Records that cannot be decoded were accepted from a producer as they are: the answer is then
     * the batch, which is where a consumer meets the same trouble. */
    wbuf_done(&w);
    return ERR_OK;
}

static enum walk_verdict on_entry(struct log_walk *w, const struct scan_result *entry)
{
    struct log_time_query *q = query_walk_of(w)->query;
    const struct entry_header *h = &entry->header;
    if (h->next_offset > q->end_offset) {
        return WALK_STOP;
    }
    if (h->type != ENTRY_DATA || h->max_timestamp < q->timestamp) {
        return WALK_ON;
    }
    q->ret_term = h->term;
    q->result = find_record(q, entry->payload);
    return WALK_STOP;
}

static bool doubts_index(struct query_walk *qw);

static void on_end(struct log_walk *w, enum walk_reason reason)
{
    struct query_walk *qw = query_walk_of(w);
    switch (reason) {
    case WALK_STOPPED:
        finish(qw, qw->query->result);
        break;
    case WALK_AT_END:
        finish(qw, ERR_OK);
        break;
    case WALK_BAD:
        if (!doubts_index(qw)) {
            log_report_corruption(w);
            finish(qw, ERR_CORRUPT);
        }
        break;
    case WALK_DAMAGE:
        log_walk_leap(w); /* The first readable one is the best answer there is. */
        log_walk_run(w);
        break;
    case WALK_GONE:
        w->on_start(w);
        break;
    case WALK_ERROR:
        finish(qw, w->error);
        break;
    }
}

static void start_in_segment(struct query_walk *qw)
{
    const struct segment_point *p =
        segment_points_by_timestamp(&qw->seg->points, qw->query->timestamp);
    log_walk_seek_point(&qw->walk, qw->seg, p);
    qw->is_by_point = p != NULL && qw->seg->is_index_loaded;
    qw->start_index = qw->walk.scan.index;
    log_walk_run(&qw->walk);
}

static void on_index_ready(struct segment_wait *wait, enum err e)
{
    (void)e;
    start_in_segment(container_of(wait, struct query_walk, index_wait));
}

/* As in log_read.c. */
static bool doubts_index(struct query_walk *qw)
{
    if (!qw->is_by_point || qw->walk.scan.index != qw->start_index) {
        return false;
    }
    (void)log_index_doubt(qw->seg);
    qw->is_by_point = false;
    log_walk_seek_start(&qw->walk, qw->seg);
    log_walk_run(&qw->walk);
    return true;
}

static void on_start(struct log_walk *w)
{
    struct query_walk *qw = query_walk_of(w);
    struct log_time_query *q = qw->query;
    list_for_each (n, &w->log->segments) {
        struct log_segment *seg = container_of(n, struct log_segment, link);
        if (seg->base.offset >= q->end_offset) {
            break;
        }
        if (seg->max_timestamp >= q->timestamp) {
            qw->seg = seg;
            log_walk_seek_start(w, seg); /* So it is held while its index is brought. */
            qw->index_wait.on_ready = on_index_ready;
            if (log_index_want(seg, &qw->index_wait)) {
                start_in_segment(qw);
            }
            return;
        }
    }
    finish(qw, ERR_OK);
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

    struct query_walk *qw = malloc(sizeof(*qw));
    if (qw == NULL) {
        panic("no memory for a query");
    }
    qw->query = q;
    q->state = qw;
    log_walk_init(&qw->walk, l);
    qw->walk.on_start = on_start;
    qw->walk.on_entry = on_entry;
    qw->walk.on_end = on_end;
    log_walk_park(&qw->walk);
}
