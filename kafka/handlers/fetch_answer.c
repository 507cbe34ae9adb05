/* Fetch, second half: grants, reads and the answer. */
#include <stdalign.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/shard.h"
#include "core/wbuf.h"
#include "kafka/handlers/fetch_priv.h"
#include "storage/batch.h"
#include "storage/log.h"

enum {
    ANSWER_HEAD_SIZE_MAX = 64 << 20, /* All but the records. */
};

/* What is left of the limits while grants are made. */
struct grants {
    size_t size_left; /* Of max_bytes. */
    size_t copied_size_left;
    uint32_t refs_left;
    uint32_t pieces_max; /* For each of those. */
    bool is_first;       /* Nobody has got any: the next is not held to max_bytes. */
};

static size_t min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Bytes the part may read now; 0 = none. */
static size_t grant_size(const struct grants *g, const struct fetch_part *part)
{
    const int32_t part_max = part->in->partition_max_bytes;
    size_t size = min_size(part->readable_size, g->size_left);
    size = min_size(size, part_max > 0 ? (size_t)part_max : 0);
    if (size > FETCH_COPY_SIZE_MAX && g->refs_left == 0) {
        size = FETCH_COPY_SIZE_MAX;
    }
    if (size <= FETCH_COPY_SIZE_MAX && size > g->copied_size_left) {
        return 0;
    }
    /* No batch is smaller. The first part tries all the same: it learns what its batch takes. */
    if (size < BATCH_HEADER_SIZE) {
        return g->is_first ? BATCH_HEADER_SIZE : 0;
    }
    return size;
}

static void take_grant(struct grants *g, size_t size)
{
    g->is_first = false;
    g->size_left -= min_size(size, g->size_left);
    if (size > FETCH_COPY_SIZE_MAX) {
        g->refs_left--;
    } else {
        g->copied_size_left -= min_size(size, g->copied_size_left);
    }
}

static void start_read(
    struct fetch *f, struct fetch_part *part, struct buf *b, size_t size, uint32_t pieces_max)
{
    assert(part->buf == NULL);
    assert(part->pin == NULL);
    part->buf = b;
    part->needed_size = 0;
    part->state = PART_READING;
    part->op.in.fetch.offset = part->in->fetch_offset;
    part->op.in.fetch.dst = b->data;
    part->op.in.fetch.dst_size = size;
    part->op.in.fetch.pieces_max = size > FETCH_COPY_SIZE_MAX ? pieces_max : 0;
    fetch_submit(f, part, PARTITION_READ);
}

/* How many pieces each read by reference may have, if all that could be one are. */
static uint32_t pieces_per_ref(const struct fetch *f)
{
    uint32_t refs = 0;
    for (size_t i = 0; i < f->parts_count && refs < FETCH_REFS_MAX; i++) {
        const struct fetch_part *part = &f->parts[i];
        refs += part->state == PART_PEEKED && part->readable_size > FETCH_COPY_SIZE_MAX ? 1 : 0;
    }
    const uint32_t count = FETCH_PIECES_MAX / (refs > 0 ? refs : 1) - 1;
    return count < LOG_PIECES_MAX ? count : LOG_PIECES_MAX;
}

/* As much of *size as there is memory for; NULL if there is not even a page. */
static struct buf *alloc_up_to(struct buf_pool *bufs, size_t *size)
{
    for (;;) {
        struct buf *b = buf_alloc(bufs, *size, BUF_CLIENT);
        if (b != NULL || *size <= BUF_SIZE_MIN) {
            return b;
        }
        *size /= 2;
    }
}

void fetch_start_reads(struct fetch *f)
{
    const struct fetch_request *in = f->request->in;
    const struct dispatch *d = f->request->d;
    f->is_starved = false;
    f->is_owner_starved = false;
    struct grants g = {
        .size_left = min_size(in->max_bytes > 0 ? (size_t)in->max_bytes : 0, d->fetch_size_max),
        .copied_size_left = FETCH_COPIED_SIZE_MAX,
        .refs_left = FETCH_REFS_MAX,
        .pieces_max = pieces_per_ref(f),
        .is_first = true,
    };
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        if (part->state != PART_PEEKED || part->readable_size == 0) {
            continue;
        }
        size_t size = grant_size(&g, part);
        if (size == 0) {
            continue;
        }
        struct buf *b = alloc_up_to(d->s->bufs, &size);
        if (b == NULL) {
            f->is_starved = true;
            break;
        }
        take_grant(&g, size);
        start_read(f, part, b, size, g.pieces_max);
    }
}

static bool has_read(const struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        if (f->parts[i].state == PART_READ) {
            return true;
        }
    }
    return false;
}

bool fetch_start_large_read(struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        if (part->state == PART_READ) {
            return false;
        }
        if (part->state != PART_PEEKED || part->needed_size == 0) {
            continue;
        }
        const size_t size = part->needed_size;
        struct buf *b = buf_alloc(f->request->d->s->bufs, size, BUF_CLIENT);
        if (b == NULL) {
            part->needed_size = 0; /* A later round learns it again. */
            f->is_starved = true;
            return false;
        }
        /* In one piece where others, behind it in the request, have theirs already. */
        start_read(f, part, b, size, has_read(f) ? 0 : LOG_PIECES_MAX);
        return true;
    }
    return false;
}

static void drop_buf(struct fetch_part *part)
{
    buf_unref(part->buf);
    part->buf = NULL;
    part->size = 0;
    part->copied_size = 0;
}

/* A read that gave nothing; the reason decides what the part has to expect. */
static void end_failed_read(struct fetch *f, struct fetch_part *part)
{
    const struct partition_op *op = &part->op;
    drop_buf(part);
    if (op->result == ERR_TOO_LARGE) {
        assert_cmp(op->out.fetch.size_needed, >, op->in.fetch.dst_size);
        part->needed_size = op->out.fetch.size_needed;
    } else if (op->result == ERR_BUSY) {
        f->is_owner_starved = true;
    } else {
        fetch_part_fail_by(f, part, op->result);
    }
}

static const uint8_t *first_bytes(const struct fetch_part *part)
{
    return part->pin == NULL ? part->buf->data : part->pin->pieces[0].data;
}

void fetch_end_read(struct fetch *f, struct fetch_part *part)
{
    part->state = PART_PEEKED;
    if (part->op.result != ERR_OK) {
        end_failed_read(f, part);
        return;
    }
    fetch_take_offsets(part); /* More may have been committed since the look, and be among these. */
    part->size = part->op.out.fetch.size;
    part->pin = part->op.out.fetch.pin;
    part->copied_size = part->pin == NULL ? part->size : part->op.out.fetch.copied_size;
    if (part->size == 0) {
        drop_buf(part);
        return;
    }
    part->state = PART_READ;
    part->out->records = slice_of(first_bytes(part), part->size);
    if (part->copied_size == 0) {
        buf_unref(part->buf);
        part->buf = NULL;
    }
}

/* ---- the answer ---- */

/* The answer as net takes it: memory with all that is copied, and pieces in order. */
struct assembly {
    uint8_t *memory;
    size_t used;
    size_t piece_start; /* Of the piece that grows. */
    struct conn_piece pieces[CONN_ANSWER_IOV_MAX];
    uint32_t pieces_count;
    struct fetch_pins *pins;
};

static void add_copy(struct assembly *a, const void *data, size_t size)
{
    memcpy(a->memory + a->used, data, size);
    a->used += size;
}

static void end_piece(struct assembly *a)
{
    if (a->used > a->piece_start) {
        assert_cmp(a->pieces_count, <, CONN_ANSWER_IOV_MAX - 1);
        a->pieces[a->pieces_count++] = (struct conn_piece){
            .bytes = slice_of(a->memory + a->piece_start, a->used - a->piece_start),
        };
        a->piece_start = a->used;
    }
}

static void add_reference(struct assembly *a, struct slice bytes, struct buf *b)
{
    end_piece(a);
    assert_cmp(a->pieces_count, <, CONN_ANSWER_IOV_MAX - 1);
    a->pieces[a->pieces_count++] = (struct conn_piece){.bytes = bytes, .buf = b};
}

/* Bytes in the part's buffer. */
static void add_copied(struct assembly *a, const struct fetch_part *part, struct slice bytes)
{
    if (part->copied_size <= FETCH_COPY_SIZE_MAX) {
        add_copy(a, bytes.data, bytes.size);
    } else {
        buf_ref(part->buf); /* The part's own goes later. */
        add_reference(a, bytes, part->buf);
    }
}

/* Memory of logs that the answer refers to. In its own memory, behind the bytes. */
struct fetch_pins {
    struct conn_release release;
    struct shard *s;
    size_t count;
    struct log_pin *pins[];
};

static void on_release(struct conn_release *rel)
{
    struct fetch_pins *p = container_of(rel, struct fetch_pins, release);
    for (size_t i = 0; i < p->count; i++) {
        log_pin_release(p->s, p->pins[i]);
    }
}

static void add_part(struct assembly *a, struct fetch_part *part)
{
    const struct log_pin *pin = part->pin;
    if (pin == NULL) {
        add_copied(a, part, slice_of(part->buf->data, part->size));
        return;
    }
    for (uint32_t i = 0; i < pin->pieces_count; i++) {
        if (pin->bufs[i] == NULL) {
            add_copied(a, part, pin->pieces[i]);
        } else {
            add_reference(a, pin->pieces[i], NULL);
        }
    }
    a->pins->pins[a->pins->count++] = part->pin;
    part->pin = NULL;
}

static size_t copied_size(const struct fetch *f)
{
    size_t size = 0;
    for (size_t i = 0; i < f->parts_count; i++) {
        if (f->parts[i].copied_size <= FETCH_COPY_SIZE_MAX) {
            size += f->parts[i].copied_size;
        }
    }
    return size;
}

/* head: the encoded answer without the records; refs: where they belong, one for each part that
 * has any, in the same order. */
static void
assemble(struct fetch *f, struct assembly *a, const struct wbuf *head, const struct wire_refs *refs)
{
    size_t head_pos = 0;
    size_t ref_index = 0;
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        if (part->size == 0) {
            continue;
        }
        assert_cmp(ref_index, <, refs->refs_count);
        const struct wire_ref *ref = &refs->refs[ref_index++];
        assert(ref->bytes.data == first_bytes(part));
        add_copy(a, head->data + head_pos, ref->pos - head_pos);
        head_pos = ref->pos;
        add_part(a, part);
    }
    assert_cmp(ref_index, ==, refs->refs_count);
    add_copy(a, head->data + head_pos, head->size - head_pos);
    end_piece(a);
}

static void release_bufs(struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        struct fetch_part *part = &f->parts[i];
        buf_unref(part->buf);
        part->buf = NULL;
        if (part->pin != NULL) {
            log_pin_release(f->request->d->s, part->pin);
            part->pin = NULL;
        }
    }
}

static enum err alloc_assembly(const struct fetch *f, struct assembly *a, size_t size)
{
    const size_t pins_pos = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    const size_t pins_max = f->parts_count < FETCH_REFS_MAX ? f->parts_count : FETCH_REFS_MAX;
    a->memory = malloc(pins_pos + sizeof(struct fetch_pins) + pins_max * sizeof(struct log_pin *));
    if (a->memory == NULL) {
        return ERR_BUSY;
    }
    a->pins = (struct fetch_pins *)(void *)(a->memory + pins_pos);
    a->pins->release.run = on_release;
    a->pins->s = f->request->d->s;
    a->pins->count = 0;
    return ERR_OK;
}

void fetch_answer(struct fetch *f)
{
    struct request *r = f->request;
    fetch_end_session(f);
    struct wire_refs refs = {
        .refs = request_alloc(r, f->parts_count, sizeof(*refs.refs)),
        .refs_count_max = f->parts_count,
    };
    struct wbuf head;
    wbuf_init(&head, ANSWER_HEAD_SIZE_MAX);
    const bool has_refs = refs.refs != NULL || f->parts_count == 0;
    enum err e = has_refs ? request_encode_header(r, &head) : ERR_TOO_LARGE;
    if (e == ERR_OK) {
        e = fetch_response_encode_refs(&head, &refs, r->version, &f->out);
    }
    struct assembly a = {0};
    if (e == ERR_OK) {
        e = alloc_assembly(f, &a, head.size + copied_size(f));
    }
    if (e == ERR_OK) {
        assemble(f, &a, &head, &refs);
        if (a.pins->count > 0) {
            request_on_release(r, &a.pins->release);
        }
        request_answer_pieces(r, a.memory, a.pieces, a.pieces_count);
    } else {
        request_abort(r, err_name(e));
    }
    wbuf_done(&head);
    release_bufs(f);
}
