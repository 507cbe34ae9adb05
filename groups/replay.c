#include "groups/replay.h"

#include <stdlib.h>

#include "storage/batch.h"

static void finish(struct replay *r, enum err e)
{
    free(r->buffer);
    r->buffer = NULL;
    r->buffer_size = 0;
    r->on_done(r->context, r->is_cancelled ? ERR_CANCELLED : e);
}

static bool reserve(struct replay *r, size_t size)
{
    uint8_t *buffer = realloc(r->buffer, size);
    if (buffer == NULL) {
        return false;
    }
    r->buffer = buffer;
    r->buffer_size = size;
    return true;
}

static void read_more(struct replay *r)
{
    r->op.in.fetch.offset = r->next_offset;
    r->op.in.fetch.dst = r->buffer;
    r->op.in.fetch.dst_size = r->buffer_size;
    r->op.in.fetch.size_max = r->buffer_size;
    cluster_partition_submit(r->cluster, &r->op);
}

/* Batches as they were read: whole ones, one behind the other. */
static enum err take(struct replay *r, struct slice bytes)
{
    while (bytes.size > 0) {
        struct batch_header header;
        enum err e = batch_header_decode(bytes, &header);
        if (e != ERR_OK) {
            return ERR_CORRUPT;
        }
        const size_t size = batch_size(&header);
        e = r->on_batch(r->context, slice_of(bytes.data, size));
        if (e != ERR_OK) {
            return e;
        }
        r->next_offset = header.base_offset + header.last_offset_delta + 1;
        bytes = slice_of(bytes.data + size, bytes.size - size);
    }
    return ERR_OK;
}

static void on_read(struct partition_op *op)
{
    struct replay *r = op->context;
    enum err e = op->result;
    if (e == ERR_OUT_OF_RANGE && r->next_offset < op->offsets.log_start_offset) {
        r->next_offset = op->offsets.log_start_offset;
        e = ERR_OK;
    } else if (e == ERR_TOO_LARGE) {
        e = reserve(r, op->out.fetch.size_needed) ? ERR_OK : ERR_BUSY;
    } else if (e == ERR_OK) {
        e = take(r, slice_of(r->buffer, op->out.fetch.size));
        if (e == ERR_OK && op->out.fetch.size == 0) {
            finish(r, ERR_OK); /* Compaction may have taken all up to the high watermark. */
            return;
        }
    }
    if (e != ERR_OK || r->is_cancelled) {
        finish(r, e);
        return;
    }
    read_more(r);
}

void replay_begin(struct replay *r)
{
    r->is_cancelled = false;
    r->op = (struct partition_op){
        .kind = PARTITION_READ,
        .id = r->id,
        .current_leader_epoch = -1,
        .on_done = on_read,
        .context = r,
    };
    (void)reserve(r, REPLAY_BUFFER_SIZE); /* Without it the first read says what it needs. */
    read_more(r);
}

void replay_cancel(struct replay *r)
{
    r->is_cancelled = true;
}
