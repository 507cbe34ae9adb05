/* Fetch, second half: grants, reads and the answer. */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/shard.h"
#include "core/wbuf.h"
#include "kafka/handlers/fetch_priv.h"
#include "storage/batch.h"

enum {
    ANSWER_HEAD_SIZE_MAX = 64 << 20, /* All but the records. */
};

/* What is left of the limits while grants are made. */
struct grants {
    size_t size_left; /* Of max_bytes. */
    size_t copied_size_left;
    uint32_t refs_left;
    bool is_first; /* Nobody has got any: the next is not held to max_bytes. */
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

static void start_read(struct fetch *f, struct fetch_part *part, struct buf *b, size_t size)
{
    assert(part->buf == NULL);
    part->buf = b;
    part->needed_size = 0;
    part->state = PART_READING;
    part->op.in.fetch.offset = part->in->fetch_offset;
    part->op.in.fetch.dst = b->data;
    part->op.in.fetch.dst_size = size;
    fetch_submit(f, part, PARTITION_READ);
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
        .refs_left = FETCH_REFS_MAX - 1, /* One is kept for a large read. */
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
        start_read(f, part, b, size);
    }
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
        start_read(f, part, b, size);
        return true;
    }
    return false;
}

/* The batches in front of the first one that this version of Fetch must not show: zstd needs
 * version 10 (KIP-110). */
static size_t size_without_zstd(const struct fetch_part *part)
{
    size_t pos = 0;
    while (pos < part->size) {
        struct batch_header header;
        const struct slice rest = slice_of(part->buf->data + pos, part->size - pos);
        if (batch_header_decode(rest, &header) != ERR_OK || batch_codec(&header) == CODEC_ZSTD) {
            break;
        }
        pos += batch_size(&header);
    }
    return pos;
}

static void drop_buf(struct fetch_part *part)
{
    buf_unref(part->buf);
    part->buf = NULL;
    part->size = 0;
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

void fetch_end_read(struct fetch *f, struct fetch_part *part)
{
    part->state = PART_PEEKED;
    if (part->op.result != ERR_OK) {
        end_failed_read(f, part);
        return;
    }
    fetch_take_offsets(part); /* More may have been committed since the look, and be among these. */
    part->size = part->op.out.fetch.size;
    if (f->request->version < FETCH_VERSION_ZSTD) {
        const size_t size = size_without_zstd(part);
        if (size == 0 && part->size > 0) {
            drop_buf(part);
            fetch_part_fail(f, part, KAFKA_UNSUPPORTED_COMPRESSION_TYPE);
            return;
        }
        part->size = size;
    }
    if (part->size == 0) {
        drop_buf(part);
        return;
    }
    part->state = PART_READ;
    part->out->records = slice_of(part->buf->data, part->size);
}

/* ---- the answer ---- */

/* The answer as net takes it: memory with all that is copied, and pieces in order. */
struct assembly {
    uint8_t *memory;
    size_t used;
    size_t piece_start; /* Of the piece that grows. */
    struct conn_piece pieces[CONN_ANSWER_IOV_MAX];
    uint32_t pieces_count;
};

static void add_copy(struct assembly *a, const void *data, size_t size)
{
    memcpy(a->memory + a->used, data, size);
    a->used += size;
}

static void end_piece(struct assembly *a)
{
    if (a->used > a->piece_start) {
        a->pieces[a->pieces_count++] = (struct conn_piece){
            .bytes = slice_of(a->memory + a->piece_start, a->used - a->piece_start),
        };
        a->piece_start = a->used;
    }
}

/* The reference to the part's buffer goes to net. */
static void add_reference(struct assembly *a, struct fetch_part *part)
{
    end_piece(a);
    a->pieces[a->pieces_count++] = (struct conn_piece){
        .bytes = slice_of(part->buf->data, part->size),
        .buf = part->buf,
    };
    part->buf = NULL;
}

static size_t copied_size(const struct fetch *f)
{
    size_t size = 0;
    for (size_t i = 0; i < f->parts_count; i++) {
        if (f->parts[i].size <= FETCH_COPY_SIZE_MAX) {
            size += f->parts[i].size;
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
        assert(ref->bytes.data == part->buf->data);
        add_copy(a, head->data + head_pos, ref->pos - head_pos);
        head_pos = ref->pos;
        if (part->size <= FETCH_COPY_SIZE_MAX) {
            add_copy(a, part->buf->data, part->size);
        } else {
            add_reference(a, part);
        }
    }
    assert_cmp(ref_index, ==, refs->refs_count);
    add_copy(a, head->data + head_pos, head->size - head_pos);
    end_piece(a);
}

static void release_bufs(struct fetch *f)
{
    for (size_t i = 0; i < f->parts_count; i++) {
        buf_unref(f->parts[i].buf);
        f->parts[i].buf = NULL;
    }
}

void fetch_answer(struct fetch *f)
{
    struct request *r = f->request;
    struct wire_refs refs = {
        .refs = request_alloc(r, f->parts_count, sizeof(*refs.refs)),
        .refs_count_max = f->parts_count,
    };
    struct wbuf head;
    wbuf_init(&head, ANSWER_HEAD_SIZE_MAX);
    enum err e = refs.refs == NULL ? ERR_TOO_LARGE : request_encode_header(r, &head);
    if (e == ERR_OK) {
        e = fetch_response_encode_refs(&head, &refs, r->version, &f->out);
    }
    struct assembly a = {0};
    if (e == ERR_OK) {
        a.memory = malloc(head.size + copied_size(f));
        e = a.memory == NULL ? ERR_BUSY : ERR_OK;
    }
    if (e == ERR_OK) {
        assemble(f, &a, &head, &refs);
        request_answer_pieces(r, a.memory, a.pieces, a.pieces_count);
    } else {
        request_abort(r, err_name(e));
    }
    wbuf_done(&head);
    release_bufs(f);
}
