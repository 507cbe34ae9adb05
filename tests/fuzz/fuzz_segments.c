/* Files of a node as its disk may give them back: segments, indexes, checkpoints, stores. A node
 * with some records is made once, and its files as they are after a stop, and as they are when it
 * is killed. The first byte chooses between the two; the rest are edits of these files, each a byte
 * that names the file, one that says what, and:
 *
 *   0   u24 place, u8 size, bytes: other bytes there
 *   1   u16 n, u8 place, u8 size, bytes: other bytes in the n-th entry of a segment, which is then
 *       sealed: checksums, its own and that of its batch, are right
 *   2   u16 n: the file ends at block n
 *   3   u16 n, u16 m: block n is what block m is, of the same file
 *   4   u16 n: block n is zeros
 *   5   the file is gone
 *   6   u16 n: block n of a store gets its checksum; an index or checkpoint the one of the whole
 *
 * A node on these files starts or says in one line why not, answers, and stops. Of what it hands
 * out every batch is whole and in its place; without edits it is all that was acknowledged, and
 * more is taken. The tool that shows a segment gets to its end.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/batch.h"
#include "storage/checkpoint.h"
#include "storage/dump.h"
#include "storage/entry.h"
#include "storage/segment_format.h"
#include "storage/segment_index.h"
#include "storage/store_format.h"

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/seal.h"
#include "tests/support/sim_node.h"

/* A node that does not start leaves what its partitions had, as a process that ends does. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "detect_leaks=0";
}

enum {
    FILES_MAX = 32,
    PATH_SIZE = 256,
    EDITS_MAX = 64,
    BATCHES_COUNT = 12,
    VALUE_SIZE = 5000,
    SEGMENT_SIZE = 32 << 10,
    READ_SIZE = 64 << 10,
    READS_MAX = 100,
    SETTLE_STEPS = 20 * 1000,
    CRC_OF_INDEX = offsetof(struct segment_index_header, crc),
    CRC_OF_CHECKPOINT = offsetof(struct checkpoint_header, crc),
};

struct file {
    char path[PATH_SIZE];
    uint8_t *bytes;
    uint64_t size;
    bool is_gone;
};

struct image {
    struct file files[FILES_MAX];
    size_t count;
    struct uuid topic_id;
};

/* ---- the node ---- */

static struct disk_sim *new_disk(void)
{
    struct disk_sim *d = disk_sim_new(
        &(struct disk_sim_options){.is_direct_capable = true, .is_flush_shared = true});
    assert(d != NULL);
    return d;
}

static void make_small(struct log_options *o)
{
    o->segment_size_max = SEGMENT_SIZE;
    o->fill_step_min = 8 << 10;
    o->fill_step_max = 16 << 10;
    o->index_interval = 4 << 10;
    o->checkpoint_size = 4 << 10;
}

static void init_node(struct sim_node *n, struct disk_sim *disk)
{
    sim_node_init(n, disk, 1, 1);
    make_small(&n->settings.log);
    make_small(&n->settings.controller_log);
}

static enum err
produce(struct sim_node *n, const struct uuid *topic, size_t value_size, int32_t sequence)
{
    static uint8_t value[VALUE_SIZE];
    struct batch_builder b;
    struct wbuf w;
    wbuf_init(&w, READ_SIZE);
    batch_builder_init(&b, READ_SIZE);
    const struct batch_record record = {
        .timestamp = 1700000000000 + sequence,
        .key = slice_of_string("key"),
        .value = slice_of(value, value_size),
    };
    enum err e = batch_builder_add(&b, &record);
    assert(e == ERR_OK);
    const struct batch_identity identity = {sequence < 0 ? -1 : 7, sequence < 0 ? -1 : 0, sequence};
    e = batch_builder_finish(&b, CODEC_NONE, &identity, &w);
    assert(e == ERR_OK);
    batch_builder_done(&b);
    struct partition_op op = {
        .kind = PARTITION_PRODUCE,
        .id = {*topic, 0},
        .current_leader_epoch = -1,
        .in.produce = {.batch = wbuf_slice(&w), .acks = -1, .produce_version = 9},
    };
    e = sim_node_partition_op(n, 0, &op);
    wbuf_done(&w);
    return e;
}

/* ---- the image ---- */

struct taking {
    struct disk_sim *disk;
    struct image *image;
};

static void take_file(void *context, const char *path, uint64_t size)
{
    struct taking *t = context;
    assert_cmp(t->image->count, <, FILES_MAX);
    struct file *f = &t->image->files[t->image->count++];
    assert_cmp(strlen(path), <, PATH_SIZE);
    memcpy(f->path, path, strlen(path) + 1);
    f->size = size;
    f->bytes = malloc(size + 1);
    assert(f->bytes != NULL);
    const enum err e = size > 0 ? disk_sim_peek(t->disk, path, 0, f->bytes, size) : ERR_OK;
    assert(e == ERR_OK);
}

static void take_image(struct disk_sim *disk, struct image *image)
{
    disk_sim_each_file(disk, &(struct taking){disk, image}, take_file);
}

static void make_images(struct image images[2])
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    assert(n != NULL);
    init_node(n, disk);
    enum err e = sim_node_start(n);
    assert(e == ERR_OK);
    struct uuid id;
    e = sim_node_create_topic(n, 0, "t", 1, &id);
    assert(e == ERR_OK);
    for (int32_t i = 0; i < BATCHES_COUNT; i++) {
        e = produce(n, &id, VALUE_SIZE, i);
        assert(e == ERR_OK);
    }
    sim_node_run(n, SETTLE_STEPS);
    take_image(disk, &images[1]);
    sim_node_stop(n);
    take_image(disk, &images[0]);
    images[0].topic_id = images[1].topic_id = id;
    free(n);
    disk_sim_free(disk);
}

static void copy_image(const struct image *from, struct image *to)
{
    *to = *from;
    for (size_t i = 0; i < to->count; i++) {
        to->files[i].bytes = malloc(from->files[i].size + 1);
        assert(to->files[i].bytes != NULL);
        memcpy(to->files[i].bytes, from->files[i].bytes, from->files[i].size);
    }
}

static void free_image(struct image *image)
{
    for (size_t i = 0; i < image->count; i++) {
        free(image->files[i].bytes);
    }
}

/* ---- edits ---- */

static bool has_suffix(const struct file *f, const char *suffix)
{
    const size_t size = strlen(f->path);
    const size_t suffix_size = strlen(suffix);
    return size > suffix_size && strcmp(f->path + size - suffix_size, suffix) == 0;
}

static struct slice take(struct rbuf *in, size_t size)
{
    return rbuf_bytes(in, size < rbuf_left(in) ? size : rbuf_left(in));
}

static void put(struct file *f, uint64_t pos, struct slice bytes)
{
    const uint64_t room = pos < f->size ? f->size - pos : 0;
    if (bytes.size > 0 && room > 0) {
        memcpy(f->bytes + pos, bytes.data, bytes.size < room ? bytes.size : room);
    }
}

/* Where the n-th entry stands that is still as it was; 0: there is none. */
static uint64_t entry_at(const struct file *f, uint32_t n)
{
    uint64_t salt = 0;
    uint64_t pos = SEGMENT_HEADER_SIZE;
    if (f->size <= SEGMENT_HEADER_SIZE) {
        return 0;
    }
    memcpy(&salt, f->bytes + offsetof(struct segment_header, salt), sizeof(salt));
    while (pos + sizeof(struct entry_header) <= f->size) {
        struct entry_header h;
        memcpy(&h, f->bytes + pos, sizeof(h));
        if (entry_check_fields(&h, salt) != ENTRY_GOOD ||
            pos + entry_size(h.payload_size) > f->size) {
            pos = block_align_up(pos + 1);
        } else if (n-- == 0) {
            return pos;
        } else {
            pos = entry_place(pos + entry_size(h.payload_size));
        }
    }
    return 0;
}

static void edit_entry(struct file *f, struct rbuf *in)
{
    const uint64_t pos = entry_at(f, (uint32_t)rbuf_u16(in) % (2 * BATCHES_COUNT));
    const uint8_t place = (uint8_t)rbuf_i8(in);
    const struct slice bytes = take(in, (uint8_t)rbuf_i8(in));
    if (pos == 0) {
        return;
    }
    put(f, pos + place, bytes);
    struct entry_header h;
    memcpy(&h, f->bytes + pos, sizeof(h));
    const bool is_whole =
        pos + sizeof(h) + h.payload_size <= f->size && h.payload_size <= ENTRY_PAYLOAD_SIZE_MAX;
    if (!is_whole || h.salt == 0 || h.index == 0 || h.type == ENTRY_NONE ||
        (h.type != ENTRY_GAP && h.span != 0)) {
        return; /* Cannot be sealed. */
    }
    uint8_t *payload = f->bytes + pos + sizeof(h);
    if (h.type == ENTRY_DATA) {
        seal_batch(payload, h.payload_size);
    }
    h.entry_id = entry_id_of(&h, payload);
    entry_seal(&h, f->bytes + pos);
}

static void set_u32(struct file *f, uint64_t pos, uint32_t value)
{
    put(f, pos, slice_of(&value, sizeof(value)));
}

static void seal_whole(struct file *f, uint64_t crc_pos, uint64_t size)
{
    if (size <= f->size && size >= crc_pos + sizeof(uint32_t)) {
        set_u32(f, crc_pos, 0);
        set_u32(f, crc_pos, crc32c(f->bytes, size));
    }
}

static void seal(struct file *f, uint64_t block)
{
    if (has_suffix(f, ".store")) {
        const uint64_t pos = block * STORE_BLOCK_SIZE;
        if (pos + STORE_BLOCK_SIZE <= f->size) {
            set_u32(f,
                    pos,
                    crc32c(f->bytes + pos + sizeof(uint32_t), STORE_BLOCK_SIZE - sizeof(uint32_t)));
        }
    } else if (has_suffix(f, ".index") && f->size >= sizeof(struct segment_index_header)) {
        struct segment_index_header h;
        memcpy(&h, f->bytes, sizeof(h));
        seal_whole(f, CRC_OF_INDEX, sizeof(h) + h.points_count * sizeof(struct segment_point));
    } else if (has_suffix(f, ".checkpoint") && f->size >= sizeof(struct checkpoint_header)) {
        struct checkpoint_header h;
        memcpy(&h, f->bytes, sizeof(h));
        seal_whole(f, CRC_OF_CHECKPOINT, h.file_size);
    }
}

static void copy_block(struct file *f, uint64_t to, uint64_t from)
{
    const uint64_t blocks = f->size / IO_ALIGN;
    if (blocks > 0) {
        memmove(f->bytes + to % blocks * IO_ALIGN, f->bytes + from % blocks * IO_ALIGN, IO_ALIGN);
    }
}

static void edit(struct image *image, struct rbuf *in)
{
    static const uint8_t zeros[IO_ALIGN];
    struct file *f = &image->files[(uint8_t)rbuf_i8(in) % image->count];
    switch ((uint8_t)rbuf_i8(in) % 7) {
    case 0: {
        const uint64_t high = (uint8_t)rbuf_i8(in);
        const uint64_t pos = high << 16 | rbuf_u16(in);
        put(f, f->size == 0 ? 0 : pos % f->size, take(in, (uint8_t)rbuf_i8(in)));
        break;
    }
    case 1:
        edit_entry(f, in);
        break;
    case 2: {
        const uint64_t size = rbuf_u16(in) * (uint64_t)IO_ALIGN;
        f->size = size < f->size ? size : f->size;
        break;
    }
    case 3: {
        const uint16_t to = rbuf_u16(in);
        copy_block(f, to, rbuf_u16(in));
        break;
    }
    case 4:
        put(f, rbuf_u16(in) * (uint64_t)IO_ALIGN, slice_of(zeros, sizeof(zeros)));
        break;
    case 5:
        f->is_gone = true;
        break;
    default:
        seal(f, rbuf_u16(in));
    }
}

/* ---- onto the disk ---- */

static void call(struct sim_node *n, struct io_op *op)
{
    const enum err e = io_call(&n->shards[0].s->io, op);
    assert(e == ERR_OK || e == ERR_EXISTS);
}

static void make_parents(struct sim_node *n, const char *path)
{
    char dir[PATH_SIZE];
    for (const char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        memcpy(dir, path, (size_t)(at - path));
        dir[at - path] = '\0';
        call(n, &(struct io_op){.kind = IO_MKDIR, .path = dir});
    }
}

static void write_file(struct sim_node *n, const struct file *f)
{
    make_parents(n, f->path);
    struct io_op op = {
        .kind = IO_OPEN,
        .path = f->path,
        .open_flags = IO_OPEN_READ | IO_OPEN_WRITE | IO_OPEN_CREATE,
    };
    call(n, &op);
    const int fd = op.result_fd;
    if (f->size > 0) {
        call(n, &(struct io_op){.kind = IO_WRITE, .fd = fd, .buf = f->bytes, .size = f->size});
    }
    call(n, &(struct io_op){.kind = IO_FSYNC, .fd = fd});
    call(n, &(struct io_op){.kind = IO_CLOSE, .fd = fd});
}

/* ---- what the node makes of it ---- */

/* Whole batches, one behind the other; returns the offset behind the last. */
static int64_t expect_batches(struct slice bytes, int64_t offset)
{
    while (bytes.size > 0) {
        struct batch_header h;
        const enum err e = batch_header_decode(bytes, &h);
        assert_cmp(e, ==, ERR_OK);
        assert(batch_crc_matches(slice_of(bytes.data, batch_size(&h))));
        assert_cmp(h.base_offset + h.last_offset_delta, >=, offset);
        offset = h.base_offset + h.last_offset_delta + 1;
        bytes = slice_of(bytes.data + batch_size(&h), bytes.size - batch_size(&h));
    }
    return offset;
}

/* Returns the offset behind what could be read. */
static int64_t read_all(struct sim_node *n, const struct uuid *topic)
{
    uint8_t *dst = malloc(READ_SIZE);
    assert(dst != NULL);
    struct partition_op op = {
        .kind = PARTITION_OFFSETS, .id = {*topic, 0}, .current_leader_epoch = -1};
    enum err e = sim_node_partition_op(n, 0, &op);
    int64_t offset = op.offsets.log_start_offset;
    const int64_t end = op.offsets.high_watermark;
    for (int i = 0; i < READS_MAX && e == ERR_OK && offset < end; i++) {
        op = (struct partition_op){
            .kind = PARTITION_READ,
            .id = {*topic, 0},
            .current_leader_epoch = -1,
            .in.fetch = {.offset = offset, .dst = dst, .dst_size = READ_SIZE},
        };
        e = sim_node_partition_op(n, 0, &op);
        if (e == ERR_OK) {
            assert_cmp(op.out.fetch.size, <=, READ_SIZE);
            assert(op.out.fetch.pin == NULL);
            const int64_t next = expect_batches(slice_of(dst, op.out.fetch.size), offset);
            assert_cmp(next, >, offset); /* Else a consumer would ask for ever. */
            offset = next;
        }
    }
    free(dst);
    return offset;
}

static enum err on_item(void *context, const struct dump_item *item)
{
    (void)item;
    (*(uint32_t *)context)++;
    return ERR_OK;
}

static void dump_all(struct sim_node *n, const struct image *image)
{
    for (size_t i = 0; i < image->count; i++) {
        uint32_t items = 0;
        if (has_suffix(&image->files[i], ".log") && !image->files[i].is_gone) {
            (void)log_dump(&n->shards[0].s->io, image->files[i].path, &items, on_item);
        }
    }
}

static void live(const struct image *image, bool is_edited)
{
    struct disk_sim *disk = new_disk();
    struct sim_node *n = calloc(1, sizeof(*n));
    assert(n != NULL);
    init_node(n, disk);
    for (size_t i = 0; i < image->count; i++) {
        if (!image->files[i].is_gone) {
            write_file(n, &image->files[i]);
        }
    }
    dump_all(n, image);
    const enum err e = sim_node_start(n);
    assert(is_edited || e == ERR_OK);
    if (e == ERR_OK) {
        const int64_t before = read_all(n, &image->topic_id);
        const enum err taken = produce(n, &image->topic_id, 1, -1);
        const int64_t after = read_all(n, &image->topic_id);
        assert(is_edited || (before == BATCHES_COUNT && taken == ERR_OK && after == before + 1));
    } else {
        assert(n->why[0] != '\0');
        assert(strchr(n->why, '\n') == NULL);
    }
    sim_node_stop(n);
    free(n);
    disk_sim_free(disk);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct image images[2]; /* Made once: they never change. */
    if (size == 0) {
        return 0;
    }
    if (images[0].count == 0) {
        make_images(images);
    }
    struct image image;
    copy_image(&images[data[0] % 2], &image);
    struct rbuf in = rbuf_over(data + 1, size - 1);
    const bool is_edited = rbuf_left(&in) > 0;
    for (int i = 0; i < EDITS_MAX && rbuf_left(&in) > 0; i++) {
        edit(&image, &in);
    }
    live(&image, is_edited);
    free_image(&image);
    return 0;
}
