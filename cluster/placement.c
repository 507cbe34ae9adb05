#include "cluster/placement.h"

#include "core/assert.h"

uint16_t placement_shard(const struct partition_id *id, uint16_t shards_count)
{
    assert_cmp(shards_count, >, 0);
    assert_cmp(id->partition, >=, 0);
    if (uuid_equal(&id->topic_id, &CONTROLLER_TOPIC_ID)) {
        return 0;
    }
    /* A constant seed is right here: topic ids are drawn by the controller, not by clients, and the
     * answer has to be the same at each start. */
    const uint64_t seed = 0x706c6163656d656eu;
    uint64_t start = hash_bytes(seed, id->topic_id.bytes, sizeof(id->topic_id.bytes));
    return (uint16_t)((start % shards_count + (uint32_t)id->partition) % shards_count);
}
