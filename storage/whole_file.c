#include "storage/whole_file.h"

#include "core/assert.h"
#include "core/shard.h"
#include "storage/flusher.h"

static void run(struct whole_file *f);

static void on_op_done(struct io_op *op)
{
    struct whole_file *f = container_of(op, struct whole_file, op);
    flusher_sync_done(f->flusher, op);
    if (op->result != ERR_OK && f->result == ERR_OK) {
        f->result = op->result;
    }
    run(f);
}

static void submit(struct whole_file *f, const struct io_op *op, enum whole_file_state next)
{
    f->state = next;
    f->op = *op;
    f->op.on_done = on_op_done;
    io_submit(&f->s->io, &f->op);
}

static void submit_open(struct whole_file *f, uint32_t flags, enum whole_file_state next)
{
    const bool is_write = next == WHOLE_FILE_WAIT_CREATE;
    submit(f,
           &(struct io_op){
               .kind = IO_OPEN,
               .path = is_write ? f->tmp_path : f->path,
               .open_flags = flags | IO_OPEN_READ | IO_OPEN_DIRECT,
           },
           next);
}

static void submit_transfer(struct whole_file *f, enum io_kind kind, enum whole_file_state next)
{
    f->fd = f->op.result_fd;
    submit(f, &(struct io_op){.kind = kind, .fd = f->fd, .buf = f->data, .size = f->size}, next);
}

static void submit_close(struct whole_file *f, enum whole_file_state next)
{
    int fd = f->fd;
    f->fd = -1;
    submit(f, &(struct io_op){.kind = IO_CLOSE, .fd = fd}, next);
}

static void finish(struct whole_file *f)
{
    f->state = WHOLE_FILE_IDLE;
    f->on_done(f, f->result);
}

static void run(struct whole_file *f)
{
    const bool is_fine = f->result == ERR_OK;
    switch (f->state) {
    case WHOLE_FILE_WAIT_CREATE:
        is_fine ? submit_transfer(f, IO_WRITE, WHOLE_FILE_WAIT_WRITE) : finish(f);
        return;
    case WHOLE_FILE_WAIT_WRITE:
        if (is_fine) {
            submit(f, &(struct io_op){.kind = IO_FSYNC, .fd = f->fd}, WHOLE_FILE_WAIT_FSYNC);
            return;
        }
        submit_close(f, WHOLE_FILE_WAIT_CLOSE);
        return;
    case WHOLE_FILE_WAIT_FSYNC:
        submit_close(f, WHOLE_FILE_WAIT_CLOSE);
        return;
    case WHOLE_FILE_WAIT_CLOSE:
        if (is_fine) {
            submit(f,
                   &(struct io_op){.kind = IO_RENAME, .path = f->tmp_path, .new_path = f->path},
                   WHOLE_FILE_WAIT_RENAME);
            return;
        }
        break;
    case WHOLE_FILE_WAIT_RENAME:
        if (is_fine) {
            submit(f,
                   &(struct io_op){.kind = IO_FSYNC_DIR, .path = f->dir},
                   WHOLE_FILE_WAIT_FSYNC_DIR);
            return;
        }
        break;
    case WHOLE_FILE_WAIT_OPEN:
        is_fine ? submit_transfer(f, IO_READ, WHOLE_FILE_WAIT_READ) : finish(f);
        return;
    case WHOLE_FILE_WAIT_READ:
        submit_close(f, WHOLE_FILE_WAIT_CLOSE_READ);
        return;
    case WHOLE_FILE_WAIT_FSYNC_DIR:
    case WHOLE_FILE_WAIT_CLOSE_READ:
        break;
    case WHOLE_FILE_IDLE:
        assert(false && "nothing was begun");
    }
    finish(f);
}

static void begin(struct whole_file *f)
{
    assert(f->state == WHOLE_FILE_IDLE);
    assert_cmp(f->size % IO_ALIGN, ==, 0);
    assert_cmp(f->size, >, 0);
    f->result = ERR_OK;
    f->fd = -1;
}

void whole_file_write_begin(struct whole_file *f)
{
    begin(f);
    submit_open(f, IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE, WHOLE_FILE_WAIT_CREATE);
}

void whole_file_read_begin(struct whole_file *f)
{
    begin(f);
    submit_open(f, 0, WHOLE_FILE_WAIT_OPEN);
}
