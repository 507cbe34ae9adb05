/* A store file from the disk: a superblock and two areas of four blocks each. The checksums of
 * blocks whose bit is set in the first byte are made right first.
 */
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/store_file.h"
#include "storage/store_map.h"

#include "tests/fuzz/fuzz.h"

enum {
    AREA_BLOCKS = 4,
    BLOCKS = 2 * AREA_BLOCKS,
    PIECE_SIZE = 96, /* Of the input per block: the header and the first records. */
    SALT = 7,
};

/* Spreads the input over the blocks. */
static void fill(uint8_t *blocks, uint8_t fixed, const uint8_t *data, size_t size)
{
    for (uint32_t i = 0; i < BLOCKS; i++) {
        uint8_t *block = blocks + i * (size_t)STORE_BLOCK_SIZE;
        size_t piece = size < PIECE_SIZE ? size : PIECE_SIZE;
        if (piece > 0) {
            memcpy(block, data, piece);
        }
        data += piece;
        size -= piece;
        if ((fixed >> i & 1) != 0) {
            struct store_block_header h;
            memcpy(&h, block, sizeof(h));
            h.salt = SALT;
            h.index = i % AREA_BLOCKS;
            h.reserved = 0;
            h.epoch %= 4;
            h.snapshot_blocks %= AREA_BLOCKS;
            h.durable_blocks %= AREA_BLOCKS;
            h.payload_size %= STORE_BLOCK_PAYLOAD_SIZE + 1;
            memcpy(block, &h, sizeof(h));
            h.crc = crc32c(block + sizeof(h.crc), STORE_BLOCK_SIZE - sizeof(h.crc));
            memcpy(block, &h.crc, sizeof(h.crc));
        }
    }
}

static void load(uint8_t *blocks)
{
    struct store_superblock sb;
    struct store_contents c;
    uint64_t bad_pos = 0;
    store_superblock_encode(&sb, SALT, AREA_BLOCKS, &(struct store_owner){.shards_count = 1});
    assert(store_superblock_check(&sb, store_file_size(AREA_BLOCKS)) == ERR_OK);
    enum err e = store_contents_find(&sb, blocks, &c, &bad_pos);
    if (e != ERR_OK) {
        assert(bad_pos < store_file_size(AREA_BLOCKS));
        return;
    }
    struct store_map m;
    assert(store_map_init(&m, SALT) == ERR_OK);
    (void)store_map_load(&m, c.stream);
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX);
    store_map_snapshot(&m, &w);
    assert(w.size == m.live_size);
    wbuf_done(&w);
    store_map_done(&m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *blocks = calloc(BLOCKS, STORE_BLOCK_SIZE);
    assert(blocks != NULL);
    if (size > 0) {
        fill(blocks, data[0], data + 1, size - 1);
    }
    load(blocks);
    free(blocks);
    struct store_superblock *sb = calloc(1, sizeof(*sb));
    assert(sb != NULL);
    if (size > 0) {
        memcpy(sb, data, size < sizeof(*sb) ? size : sizeof(*sb));
    }
    (void)store_superblock_check(sb, size);
    free(sb);
    return 0;
}
