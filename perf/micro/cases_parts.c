/* Parts alone: what requests are made of, so that a change in a sum above is found in its part. */
#include <stdlib.h>
#include <string.h>

#include "core/arena.h"
#include "core/assert.h"
#include "core/buf.h"
#include "core/crc32c.h"
#include "core/shard.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/schema.h"

#include "perf/micro/micro.h"
#include "tests/support/sim_node.h"
#include "tests/support/sim_shard.h"

enum {
    OPS_COUNT = 100,
    WARM_COUNT = 10,
    CRC_SMALL_SIZE = 150,
    CRC_LARGE_SIZE = 64 << 10,
    POOL_SIZE = 4 << 20,
    BUF_SIZE = 4096,
    ALLOCS_COUNT = 10,
    ALLOC_SIZE = 48,
    PARTITIONS_COUNT = 100,
    METADATA_VERSION = 13,
    FETCH_VERSION = 17,
    MESSAGE_SIZE_MAX = 1 << 20,
};

static void measure(const char *name, void (*f)(void *context), void *context)
{
    for (int i = 0; i < WARM_COUNT; i++) {
        counted_run(f, context);
    }
    micro_begin();
    for (int i = 0; i < OPS_COUNT; i++) {
        counted_run(f, context);
    }
    micro_end(name, OPS_COUNT);
}

/* ---- crc ---- */

static void run_crc(void *context)
{
    const struct slice *bytes = context;
    const volatile uint32_t crc = crc32c(bytes->data, bytes->size);
    (void)crc;
}

static void crc_cases(void)
{
    uint8_t *bytes = calloc(1, CRC_LARGE_SIZE);
    assert(bytes != NULL);
    struct slice small = slice_of(bytes, CRC_SMALL_SIZE);
    struct slice large = slice_of(bytes, CRC_LARGE_SIZE);
    measure("crc_150_bytes", run_crc, &small);
    measure("crc_64_kib", run_crc, &large);
    free(bytes);
}

/* ---- ring ---- */

/* Two shards that take turns in one thread; a message goes to the other one and comes home. */
struct ring {
    struct sim_node node;
    struct xmsg message;
    bool is_home;
};

static void go_home(struct shard *here, struct xmsg *m)
{
    xmsg_forward(here, m);
}

static void at_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    container_of(m, struct ring, message)->is_home = true;
}

static const struct xmsg_hop ROUTE[] = {{1, go_home}, {0, at_home}};

static void run_ring(void *context)
{
    struct ring *ring = context;
    ring->is_home = false;
    ring->message.next_hop = ROUTE;
    xmsg_send(ring->node.shards[0].s, &ring->message);
    while (!ring->is_home) {
        (void)shard_turn(ring->node.shards[0].s);
        (void)shard_turn(ring->node.shards[1].s);
    }
}

static void ring_case(void)
{
    struct disk_sim *disk = sim_disk_new();
    struct ring *ring = calloc(1, sizeof(*ring));
    assert(ring != NULL);
    sim_node_init(&ring->node, disk, 2, 1);
    enum err e = sim_node_start(&ring->node);
    assert_cmp(e, ==, ERR_OK);
    measure("ring_there_and_back", run_ring, ring);
    sim_node_stop(&ring->node);
    free(ring);
    disk_sim_free(disk);
}

/* ---- pools ---- */

static void run_buf(void *context)
{
    struct buf *b = buf_alloc(context, BUF_SIZE, BUF_CLIENT);
    assert(b != NULL);
    buf_unref(b);
}

static void run_arena(void *context)
{
    for (int i = 0; i < ALLOCS_COUNT; i++) {
        const void *p = arena_alloc(context, ALLOC_SIZE);
        assert(p != NULL);
    }
    arena_reset(context);
}

static void pool_cases(void)
{
    struct buf_pool *pool;
    enum err e = buf_pool_new(POOL_SIZE, 0, NULL, &pool);
    assert_cmp(e, ==, ERR_OK);
    measure("buf_4_kib", run_buf, pool);
    buf_pool_free(pool);
    struct arena a;
    arena_init(&a, MESSAGE_SIZE_MAX);
    measure("arena_10_allocs", run_arena, &a);
    arena_done(&a);
}

/* ---- codec ---- */

struct codec {
    const struct schema_message *schema;
    int16_t version;
    const void *message;
    uint8_t *bytes; /* Of MESSAGE_SIZE_MAX. */
    size_t size;
    struct arena arena;
};

static void run_encode(void *context)
{
    struct codec *c = context;
    struct wbuf w;
    wbuf_init_fixed(&w, c->bytes, MESSAGE_SIZE_MAX);
    enum err e = c->schema->encode(&w, c->version, c->message);
    assert_cmp(e, ==, ERR_OK);
    c->size = w.size;
}

static void run_decode(void *context)
{
    struct codec *c = context;
    struct rbuf r = rbuf_over(c->bytes, c->size);
    void *message = arena_alloc(&c->arena, c->schema->root->size);
    assert(message != NULL);
    enum err e = c->schema->decode(&r, c->version, &c->arena, message);
    assert_cmp(e, ==, ERR_OK);
    arena_reset(&c->arena);
}

static void codec_init(struct codec *c)
{
    arena_init(&c->arena, MESSAGE_SIZE_MAX);
    c->bytes = malloc(MESSAGE_SIZE_MAX);
    assert(c->bytes != NULL);
    run_encode(c);
}

static void codec_done(struct codec *c)
{
    arena_done(&c->arena);
    free(c->bytes);
}

static void decode_fetch_case(void)
{
    struct fetch_request_partition partitions[PARTITIONS_COUNT];
    for (int i = 0; i < PARTITIONS_COUNT; i++) {
        fetch_request_partition_init(&partitions[i]);
        partitions[i].partition = i;
    }
    struct fetch_request_topic topic;
    fetch_request_topic_init(&topic);
    topic.partitions = partitions;
    topic.partitions_count = PARTITIONS_COUNT;
    struct fetch_request request;
    fetch_request_init(&request);
    request.topics = &topic;
    request.topics_count = 1;
    struct codec c = {
        .schema = &schema_api_find(API_FETCH)->request,
        .version = FETCH_VERSION,
        .message = &request,
    };
    codec_init(&c);
    measure("decode_fetch_100_partitions", run_decode, &c);
    codec_done(&c);
}

static void encode_metadata_case(void)
{
    int32_t replicas[] = {1};
    struct metadata_response_partition partitions[PARTITIONS_COUNT];
    for (int i = 0; i < PARTITIONS_COUNT; i++) {
        metadata_response_partition_init(&partitions[i]);
        partitions[i].partition_index = i;
        partitions[i].replica_nodes = replicas;
        partitions[i].replica_nodes_count = 1;
        partitions[i].isr_nodes = replicas;
        partitions[i].isr_nodes_count = 1;
    }
    struct metadata_response_topic topic;
    metadata_response_topic_init(&topic);
    topic.name = slice_of_string("topic");
    topic.partitions = partitions;
    topic.partitions_count = PARTITIONS_COUNT;
    struct metadata_response response;
    metadata_response_init(&response);
    response.topics = &topic;
    response.topics_count = 1;
    struct codec c = {
        .schema = &schema_api_find(API_METADATA)->response,
        .version = METADATA_VERSION,
        .message = &response,
    };
    codec_init(&c);
    measure("encode_metadata_100_partitions", run_encode, &c);
    codec_done(&c);
}

void part_cases(void)
{
    crc_cases();
    ring_case();
    pool_cases();
    decode_fetch_case();
    encode_metadata_case();
}
