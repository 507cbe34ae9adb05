#include "storage/dump.h"

#include <stdlib.h>
#include <string.h>

#include "core/io.h"
#include "storage/segment_scan.h"

enum {
    DUMP_WINDOW_SIZE = 1 << 20,
};

struct dump {
    struct io *io;
    int fd;
    uint64_t file_size; /* Whole blocks. */
    uint8_t *data;
    size_t capacity;
    struct segment_window window;
    struct segment_header header;
    struct segment_scan scan;
    struct scan_result result;
    void *context;
    enum err (*on_item)(void *context, const struct dump_item *item);
};

/* Brings [pos, pos + size) into the window, and more if there is more. */
static enum err load(struct dump *d, uint64_t pos, uint64_t size)
{
    size = size < DUMP_WINDOW_SIZE ? DUMP_WINDOW_SIZE : size;
    size = pos + size > d->file_size ? d->file_size - pos : size;
    if (size > d->capacity) {
        free(d->data);
        d->data = aligned_alloc(IO_ALIGN, size);
        d->capacity = d->data == NULL ? 0 : size;
        if (d->data == NULL) {
            return ERR_BUSY;
        }
    }
    d->window = (struct segment_window){.data = d->data, .pos = pos};
    struct io_op op = {.kind = IO_READ, .fd = d->fd, .buf = d->data, .size = size, .pos = pos};
    enum err e = io_call(d->io, &op);
    if (e == ERR_EOF) {
        memset(d->data + op.done_size, 0, size - op.done_size); /* It shrank; show what is there. */
        e = ERR_OK;
    }
    if (e == ERR_OK) {
        d->window.size = size;
    }
    return e;
}

static enum err tell(struct dump *d, const struct dump_item *item)
{
    return d->on_item(d->context, item);
}

static enum err read_header(struct dump *d)
{
    if (d->file_size < SEGMENT_HEADER_SIZE) {
        return ERR_CORRUPT;
    }
    enum err e = load(d, 0, SEGMENT_HEADER_SIZE);
    if (e == ERR_OK) {
        e = segment_header_decode(d->data, &d->header);
    }
    if (e != ERR_OK) {
        return e;
    }
    d->scan = (struct segment_scan){
        .salt = d->header.salt,
        .generation_min = d->header.generation,
        .generation_max = UINT32_MAX,
        .limit_pos = d->file_size,
        .skip_offset = INT64_MIN,
        .has_previous = true,
        .pos = SEGMENT_HEADER_SIZE,
        .index = d->header.base.index,
        .offset = d->header.base.offset,
        .previous_id = d->header.base.previous_id,
        .term = d->header.base.term,
    };
    return tell(d, &(struct dump_item){.kind = DUMP_SEGMENT, .segment = &d->header});
}

static enum err tell_entry(struct dump *d, enum entry_fault fault)
{
    return tell(d,
                &(struct dump_item){
                    .kind = DUMP_ENTRY,
                    .pos = d->result.pos,
                    .entry = &d->result.header,
                    .payload = d->result.payload,
                    .fault = fault,
                });
}

/* The scan goes on with the entry h at pos, whatever it expected. */
static void resume_at(struct dump *d, uint64_t pos, const struct entry_header *h)
{
    d->scan.pos = pos;
    d->scan.index = h->index;
    d->scan.offset = h->base_offset;
    d->scan.term = h->term;
    d->scan.has_previous = false;
    if (h->generation > d->scan.generation_min) {
        d->scan.generation_min = h->generation;
    }
}

/* Looks for any good header from pos on. */
static enum err probe(struct dump *d, uint64_t pos, struct scan_result *ret, bool *ret_found)
{
    struct segment_scan any = d->scan;
    any.index = 0;
    any.offset = INT64_MIN;
    any.term = 0;
    while (pos < d->file_size) {
        uint64_t from = block_align_down(pos);
        if (from < d->window.pos || pos >= d->window.pos + d->window.size ||
            d->window.pos + d->window.size - from < DUMP_WINDOW_SIZE / 2) {
            enum err e = load(d, from, ENTRY_BLOCK_SIZE);
            if (e != ERR_OK) {
                return e;
            }
        }
        if (segment_scan_probe(&any, &d->window, &pos, ret)) {
            *ret_found = true;
            return ERR_OK;
        }
    }
    *ret_found = false;
    return ERR_OK;
}

/* next: where entries go on; NULL = nowhere. In front of a cut nothing is missing. */
static enum err tell_bad(struct dump *d, enum entry_fault fault, const struct scan_result *next)
{
    struct dump_item bad = {
        .kind = DUMP_BAD,
        .pos = d->result.pos,
        .fault = fault,
        .end_pos = d->file_size,
        .first_offset = d->scan.offset,
        .next_offset = INT64_MAX,
    };
    if (next != NULL) {
        const bool is_behind = next->header.index >= d->scan.index;
        bad.end_pos = next->pos;
        bad.next_offset = is_behind ? next->header.base_offset : d->scan.offset;
    }
    return tell(d, &bad);
}

/* The entries do not go on at result.pos: says so, and where they do. *ret_is_end: nowhere. */
static enum err stumble(struct dump *d, enum entry_fault fault, bool *ret_is_end)
{
    const uint64_t pos = d->result.pos;
    const bool is_payload = fault == ENTRY_FAULT_PAYLOAD;
    const struct entry_header bad = d->result.header;
    enum err e = is_payload ? tell_entry(d, fault) : ERR_OK;
    if (e != ERR_OK) {
        return e;
    }
    struct scan_result next;
    bool is_found = false;
    e = probe(d, is_payload ? pos + ENTRY_ALIGN : d->scan.pos, &next, &is_found);
    if (e != ERR_OK) {
        return e;
    }
    const bool is_clean_end = !is_found &&
                              (fault == ENTRY_FAULT_ZERO || fault == ENTRY_FAULT_SALT) &&
                              pos % ENTRY_BLOCK_SIZE == 0;
    if (!is_payload && !is_clean_end) {
        e = tell_bad(d, fault, is_found ? &next : NULL);
    }
    if (e != ERR_OK || !is_found) {
        *ret_is_end = true;
        return e;
    }
    uint64_t expected_index = is_payload ? entry_last_index(&bad) + 1 : d->scan.index;
    if (next.header.index < expected_index && next.header.generation > d->scan.generation_min) {
        e = tell(d,
                 &(struct dump_item){
                     .kind = DUMP_CUT,
                     .pos = next.pos,
                     .index = next.header.index,
                 });
    }
    resume_at(d, next.pos, &next.header);
    return e;
}

static enum err walk(struct dump *d)
{
    bool is_end = false;
    enum err e = ERR_OK;
    while (e == ERR_OK && !is_end) {
        switch (segment_scan_next(&d->scan, &d->window, &d->result)) {
        case SCAN_ENTRY:
            e = tell_entry(d, ENTRY_GOOD);
            break;
        case SCAN_MORE:
            e = load(d, d->result.need_pos, d->result.need_size);
            break;
        case SCAN_END:
            e = stumble(
                d, d->result.fault == ENTRY_GOOD ? ENTRY_FAULT_ZERO : d->result.fault, &is_end);
            break;
        case SCAN_BAD:
            e = stumble(d, d->result.fault, &is_end);
            break;
        case SCAN_DAMAGE:
            is_end = true; /* There are no jumps here. */
            break;
        }
    }
    if (e == ERR_OK) {
        e = tell(d, &(struct dump_item){.kind = DUMP_END, .pos = block_align_up(d->scan.pos)});
    }
    return e;
}

enum err dump_open(struct io *io, const char *path, int *ret_fd, uint64_t *ret_size)
{
    uint64_t size = 0;
    enum err e = io_file_size(io, path, &size);
    if (e != ERR_OK) {
        return e;
    }
    struct io_op op = {
        .kind = IO_OPEN,
        .path = path,
        .open_flags = IO_OPEN_READ | IO_OPEN_DIRECT,
    };
    e = io_call(io, &op);
    if (e == ERR_OK) {
        *ret_fd = op.result_fd;
        *ret_size = block_align_down(size);
    }
    return e;
}

enum err log_dump(struct io *io,
                  const char *path,
                  void *context,
                  enum err (*on_item)(void *context, const struct dump_item *item))
{
    struct dump d = {.io = io, .context = context, .on_item = on_item};
    enum err e = dump_open(io, path, &d.fd, &d.file_size);
    if (e != ERR_OK) {
        return e;
    }
    e = read_header(&d);
    if (e == ERR_OK) {
        e = walk(&d);
    }
    free(d.data);
    struct io_op op = {.kind = IO_CLOSE, .fd = d.fd};
    enum err close_result = io_call(io, &op);
    return e == ERR_OK ? close_result : e;
}
