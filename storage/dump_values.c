#include "storage/dump_values.h"

#include <stdlib.h>
#include <string.h>

#include "core/io.h"
#include "storage/dump.h"
#include "storage/store_file.h"

enum {
    FILE_SIZE_MAX = CHECKPOINT_SIZE_MAX,
};

static enum err read_open_file(struct io *io, int fd, uint8_t *data, uint64_t size)
{
    struct io_op op = {.kind = IO_READ, .fd = fd, .buf = data, .size = size};
    return io_call(io, &op);
}

/* All whole blocks of a file, in memory to be given to free(). */
static enum err read_file(struct io *io, const char *path, uint8_t **ret_data, uint64_t *ret_size)
{
    int fd = -1;
    uint64_t size = 0;
    enum err e = dump_open(io, path, &fd, &size);
    if (e != ERR_OK) {
        return e;
    }
    uint8_t *data = NULL;
    if (size == 0 || size > FILE_SIZE_MAX) {
        e = ERR_CORRUPT;
    } else {
        data = aligned_alloc(IO_ALIGN, size);
        e = data == NULL ? ERR_BUSY : read_open_file(io, fd, data, size);
    }
    struct io_op op = {.kind = IO_CLOSE, .fd = fd};
    const enum err close_result = io_call(io, &op);
    e = e == ERR_OK ? close_result : e;
    if (e != ERR_OK) {
        free(data);
        return e;
    }
    *ret_data = data;
    *ret_size = size;
    return ERR_OK;
}

static enum err load_store(uint8_t *data, uint64_t size, struct store_dump *d)
{
    const struct store_superblock *sb = (const struct store_superblock *)data;
    enum err e = store_superblock_check(sb, size);
    if (e != ERR_OK) {
        return e;
    }
    struct store_contents contents;
    e = store_contents_find(sb, data + STORE_BLOCK_SIZE, &contents, &d->bad_pos);
    if (e != ERR_OK) {
        return e;
    }
    d->shard = sb->shard;
    d->shards_count = sb->shards_count;
    memcpy(d->directory_id.bytes, sb->directory_id, sizeof(d->directory_id.bytes));
    d->area = contents.area;
    d->epoch = contents.areas[contents.area].epoch;
    e = store_map_init(&d->map, sb->salt);
    if (e != ERR_OK) {
        return e;
    }
    e = store_map_load(&d->map, contents.stream);
    if (e != ERR_OK) {
        d->bad_pos = store_area_pos(sb->area_blocks, contents.area);
        store_map_done(&d->map);
    }
    return e;
}

enum err store_dump_load(struct io *io, const char *path, struct store_dump *ret_dump)
{
    *ret_dump = (struct store_dump){.bad_pos = 0};
    uint8_t *data = NULL;
    uint64_t size = 0;
    enum err e = read_file(io, path, &data, &size);
    if (e == ERR_OK) {
        e = load_store(data, size, ret_dump);
    }
    free(data);
    return e;
}

void store_dump_done(struct store_dump *d)
{
    store_map_done(&d->map);
}

enum err checkpoint_dump_load(struct io *io, const char *path, struct checkpoint_dump *ret_dump)
{
    uint8_t *data = NULL;
    uint64_t size = 0;
    enum err e = read_file(io, path, &data, &size);
    if (e != ERR_OK) {
        return e;
    }
    /* The file is padded to the block; the header says how much of it is meant. */
    const struct checkpoint_header *h = (const struct checkpoint_header *)data;
    const uint64_t used_size = h->file_size < size ? h->file_size : size;
    e = checkpoint_decode(slice_of(data, used_size), &ret_dump->checkpoint);
    if (e != ERR_OK) {
        free(data);
        return e;
    }
    ret_dump->bytes = data;
    return ERR_OK;
}

void checkpoint_dump_done(struct checkpoint_dump *d)
{
    free(d->bytes);
}
