#include "cluster/placement.h"

#include "core/assert.h"

uint16_t placement_shard(const struct partition_id *id, uint16_t shards_count)
{
    assert_cmp(shards_count, >, 0);
    assert_cmp(id->partition, >=, 0);
    if (shards_count == 1 || uuid_equal(&id->topic_id, &CONTROLLER_TOPIC_ID)) {
        return 0;
    }
    /* A constant seed is right here: topic ids are drawn by the controller, not by clients, and the
     * answer has to be the same at each start. */
    const uint64_t seed = 0x706c6163656d656eu;
    uint64_t start = hash_bytes(seed, id->topic_id.bytes, sizeof(id->topic_id.bytes));
    return (uint16_t)((start % shards_count + (uint32_t)id->partition) % shards_count);
}

static uint64_t share_of(const struct placement_directory *d)
{
    return d->free_size / (d->partitions_count + 1);
}

uint32_t placement_pick_directory(const struct placement_directory *directories, uint32_t count)
{
    assert_cmp(count, >, 0);
    uint32_t best = 0;
    for (uint32_t i = 1; i < count; i++) {
        const uint64_t share = share_of(&directories[i]);
        const uint64_t best_share = share_of(&directories[best]);
        const bool is_emptier =
            directories[i].partitions_count < directories[best].partitions_count;
        if (share > best_share || (share == best_share && is_emptier)) {
            best = i;
        }
    }
    return best;
}
