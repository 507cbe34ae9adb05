#include "storage/store_format.h"

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/store.h"

static const uint8_t MAGIC[8] = {'c', 'f', 'l', 's', 't', 'o', 'r', 'e'};

static uint32_t superblock_crc(const struct store_superblock *sb)
{
    struct store_superblock copy = *sb;
    copy.crc = 0;
    return crc32c(&copy, sizeof(copy));
}

void store_superblock_encode(struct store_superblock *sb,
                             uint64_t salt,
                             uint32_t area_blocks,
                             const struct store_owner *owner)
{
    *sb = (struct store_superblock){
        .version = STORE_FORMAT_VERSION,
        .salt = salt,
        .area_blocks = area_blocks,
        .shard = owner->shard,
        .shards_count = owner->shards_count,
    };
    memcpy(sb->directory_id, &owner->directory_id, sizeof(sb->directory_id));
    memcpy(sb->magic, MAGIC, sizeof(sb->magic));
    sb->crc = superblock_crc(sb);
}

struct store_owner store_superblock_owner(const struct store_superblock *sb)
{
    struct store_owner owner = {.shard = sb->shard, .shards_count = sb->shards_count};
    memcpy(&owner.directory_id, sb->directory_id, sizeof(owner.directory_id));
    return owner;
}

enum err store_superblock_check(const struct store_superblock *sb, uint64_t file_size)
{
    if (memcmp(sb->magic, MAGIC, sizeof(sb->magic)) != 0 || sb->crc != superblock_crc(sb)) {
        return ERR_CORRUPT;
    }
    if (sb->version > STORE_FORMAT_VERSION) {
        return ERR_NEWER_FORMAT;
    }
    if (sb->area_blocks == 0 || sb->area_blocks > STORE_AREA_BLOCKS_MAX ||
        file_size != store_file_size(sb->area_blocks)) {
        return ERR_CORRUPT;
    }
    return ERR_OK;
}

/* ---- blocks -------------------------------------------------------------------------------- */

static uint32_t block_crc(const uint8_t *block)
{
    return crc32c(block + sizeof(uint32_t), STORE_BLOCK_SIZE - sizeof(uint32_t));
}

uint32_t
store_blocks_encode(const struct store_stamp *stamp, struct slice stream, uint8_t *ret_blocks)
{
    uint32_t count = 0;
    do {
        size_t size =
            stream.size < STORE_BLOCK_PAYLOAD_SIZE ? stream.size : STORE_BLOCK_PAYLOAD_SIZE;
        uint8_t *block = ret_blocks + (size_t)count * STORE_BLOCK_SIZE;
        struct store_block_header h = {
            .payload_size = (uint32_t)size,
            .salt = stamp->salt,
            .epoch = stamp->epoch,
            .index = stamp->index + count,
            .snapshot_blocks = stamp->snapshot_blocks,
            .durable_blocks = stamp->durable_blocks,
        };
        memcpy(block, &h, sizeof(h));
        if (size > 0) {
            memcpy(block + sizeof(h), stream.data, size);
            stream = slice_rest(stream, size);
        }
        memset(block + sizeof(h) + size, 0, STORE_BLOCK_PAYLOAD_SIZE - size);
        h.crc = block_crc(block);
        memcpy(block, &h.crc, sizeof(h.crc));
        count++;
    } while (stream.size > 0);
    return count;
}

/* False if the block does not belong where it is, or is damaged. */
static bool read_block(const uint8_t *block,
                       uint32_t index,
                       uint64_t salt,
                       struct store_block_header *ret_header)
{
    struct store_block_header h;
    memcpy(&h, block, sizeof(h));
    if (h.salt != salt || h.index != index || h.epoch == 0 || h.reserved != 0 ||
        h.payload_size > STORE_BLOCK_PAYLOAD_SIZE || h.snapshot_blocks == 0 ||
        h.durable_blocks > index) {
        return false;
    }
    *ret_header = h;
    return h.crc == block_crc(block);
}

struct store_area store_area_scan(const uint8_t *blocks, uint32_t count, uint64_t salt)
{
    struct store_area a = {.epoch = 0};
    for (uint32_t i = 0; i < count; i++) {
        struct store_block_header h;
        if (!read_block(blocks + (size_t)i * STORE_BLOCK_SIZE, i, salt, &h) || h.epoch < a.epoch) {
            continue;
        }
        if (h.epoch > a.epoch) {
            a = (struct store_area){.epoch = h.epoch, .snapshot_blocks = h.snapshot_blocks};
        }
        if (h.durable_blocks > a.durable_blocks) {
            a.durable_blocks = h.durable_blocks;
        }
        if (a.valid_blocks == i) {
            a.valid_blocks++;
        }
    }
    return a;
}

static bool is_complete(const struct store_area *a)
{
    return a->epoch != 0 && a->valid_blocks >= a->snapshot_blocks &&
           a->valid_blocks >= a->durable_blocks;
}

enum err store_area_choose(const struct store_area areas[2], uint32_t *ret_area, uint32_t *ret_bad)
{
    uint32_t newer = areas[1].epoch > areas[0].epoch ? 1 : 0;
    uint32_t older = 1 - newer;
    if (is_complete(&areas[newer])) {
        *ret_area = newer;
        return ERR_OK;
    }
    if (areas[newer].durable_blocks == 0 && is_complete(&areas[older])) {
        *ret_area = older;
        return ERR_OK;
    }
    /* Either the newer one was in force, or there is nothing to go back to. */
    uint32_t bad = areas[newer].durable_blocks > 0 ? newer : older;
    *ret_area = bad;
    *ret_bad = areas[bad].valid_blocks;
    return ERR_CORRUPT;
}

size_t store_area_join(uint8_t *blocks, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint8_t *block = blocks + (size_t)i * STORE_BLOCK_SIZE;
        struct store_block_header h;
        memcpy(&h, block, sizeof(h));
        memmove(blocks + size, block + sizeof(h), h.payload_size);
        size += h.payload_size;
    }
    return size;
}

/* ---- records ------------------------------------------------------------------------------- */

void store_record_encode(const struct store_record *r, struct wbuf *w)
{
    struct store_record_header h = {
        .value_size = (uint32_t)r->value.size,
        .op = (uint8_t)r->op,
        .partition = r->log.partition,
        .kind = r->kind,
        .sub = r->sub,
        .version = r->version,
    };
    memcpy(h.topic_id, r->log.topic_id.bytes, sizeof(h.topic_id));
    wbuf_bytes(w, &h, sizeof(h));
    wbuf_bytes(w, r->value.data, r->value.size);
}

enum err store_record_next(struct slice *stream, struct store_record *ret_record)
{
    struct store_record_header h;
    if (stream->size < sizeof(h)) {
        return ERR_EOF;
    }
    memcpy(&h, stream->data, sizeof(h));
    if (h.op < STORE_RECORD_PUT || h.op > STORE_RECORD_DELETE_LOG ||
        h.value_size > STORE_VALUE_SIZE_MAX) {
        return ERR_CORRUPT;
    }
    if (h.value_size > stream->size - sizeof(h)) {
        return ERR_EOF;
    }
    *ret_record = (struct store_record){
        .op = (enum store_record_op)h.op,
        .log.partition = h.partition,
        .kind = h.kind,
        .sub = h.sub,
        .version = h.version,
        .value = slice_of(stream->data + sizeof(h), h.value_size),
    };
    memcpy(ret_record->log.topic_id.bytes, h.topic_id, sizeof(h.topic_id));
    size_t size = store_record_size(h.value_size);
    *stream = slice_rest(*stream, size);
    return ERR_OK;
}
