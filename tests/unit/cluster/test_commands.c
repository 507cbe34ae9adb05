/* Commands of group 0: what is written is read back; every prefix, every unknown kind and version,
 * and every hostile count is an error that leaves the result alone. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "cluster/commands.h"

static const struct uuid id = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};

static const struct uuid two[] = {{{1, 1}}, {{2, 2}}};
static const uint8_t places[] = {1, 0, 1};

static size_t make(struct command *commands, struct wbuf *configs)
{
    const struct config_pair pairs[] = {
        {slice_of_string("retention.ms"), slice_of_string("5")},
        {slice_of_string("cleanup.policy"), slice_of_string("")},
    };
    wbuf_init(configs, COMMAND_SIZE_MAX);
    command_encode_configs(pairs, 2, configs);
    size_t n = 0;
    commands[n++] = (struct command){COMMAND_FEATURE_LEVEL, .feature_level = {1, id}};
    commands[n++] =
        (struct command){COMMAND_NODE_REGISTERED,
                         .node = {7, id, slice_of_string("rack-1"), slice_of(&id, sizeof(id))}};
    commands[n++] = (struct command){
        COMMAND_TOPIC_CREATED,
        .topic_created = {id,
                          slice_of_string("orders"),
                          3,
                          1,
                          true,
                          2,
                          wbuf_slice(configs),
                          slice_of(two, sizeof(two)),
                          slice_of(places, sizeof(places))},
    };
    commands[n] = commands[n - 1];
    commands[n].topic_created.directories = slice_of(two, sizeof(two[0]));
    commands[n++].topic_created.directory_of = (struct slice){0};
    commands[n++] = (struct command){COMMAND_TOPIC_DELETED, .topic_deleted = {id, 12}};
    commands[n++] = (struct command){COMMAND_TOPIC_PURGED, .topic_purged = {id}};
    commands[n++] = (struct command){COMMAND_PRODUCER_IDS, .producer_ids = {7, 1000, 1000}};
    commands[n++] = (struct command){
        COMMAND_PARTITIONS_ADDED,
        .partitions_added =
            {id, 2, 5, slice_of(two, sizeof(two)), slice_of(places, sizeof(places))},
    };
    commands[n++] = (struct command){
        COMMAND_PARTITIONS_ADDED,
        .partitions_added = {id, 2, 5, slice_of(two, sizeof(two[0])), {0}},
    };
    commands[n++] = (struct command){
        COMMAND_CONFIGS_ALTERED,
        .configs_altered = {CONFIG_RESOURCE_TOPIC, id, {0}, 2, wbuf_slice(configs)},
    };
    static const enum config_resource others[] = {
        CONFIG_RESOURCE_BROKER, CONFIG_RESOURCE_GROUP, CONFIG_RESOURCE_CLIENT_METRICS};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        commands[n++] = (struct command){
            COMMAND_CONFIGS_ALTERED,
            .configs_altered =
                {others[i], {{0}}, slice_of_string(i == 0 ? "" : "g"), 2, wbuf_slice(configs)},
        };
    }
    return n;
}

Test(commands, what_is_encoded_is_decoded_and_encodes_the_same)
{
    struct command commands[16];
    struct wbuf configs;
    const size_t count = make(commands, &configs);
    for (size_t i = 0; i < count; i++) {
        struct wbuf w;
        wbuf_init(&w, COMMAND_SIZE_MAX);
        command_encode(&commands[i], &w);
        struct command decoded;
        cr_assert(eq(int, command_decode(wbuf_slice(&w), &decoded), ERR_OK));
        cr_assert(eq(int, decoded.kind, commands[i].kind));
        struct wbuf again;
        wbuf_init(&again, COMMAND_SIZE_MAX);
        command_encode(&decoded, &again);
        cr_assert(slice_equal(wbuf_slice(&w), wbuf_slice(&again)), "command %zu", i);
        wbuf_done(&w);
        wbuf_done(&again);
    }
    wbuf_done(&configs);
}

Test(commands, layout_of_a_created_topic_is_fixed)
{
    static const uint8_t golden[] = {
        3, 1,   1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,  16, /* kind, version, id */
        1, 't', 0, 0, 0, 2, 0, 1, 0,                                    /* name, counts, internal */
        2, /* directories: two ids, then one byte for each partition */
        1, 1,   1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  2,   2,  2,   2,
        2, 2,   2, 2, 2, 2, 2, 2, 2, 2, 2, 2,  1,  0,  1,  1,  'a', 2,  'b', 'c', /* configs */
    };
    struct command decoded;
    cr_assert(eq(int, command_decode(slice_of(golden, sizeof(golden)), &decoded), ERR_OK));
    cr_assert(eq(i32, decoded.topic_created.partitions_count, 2));
    cr_assert(eq(sz, decoded.topic_created.directories.size, 2 * UUID_SIZE));
    cr_assert(eq(u8, decoded.topic_created.directory_of.data[0], 1));
    cr_assert(slice_equal_string(decoded.topic_created.name, "t"));
    struct slice bytes = decoded.topic_created.configs;
    struct rbuf r = rbuf_over(bytes.data, bytes.size);
    struct config_pair pair = command_next_config(&r);
    cr_assert(slice_equal_string(pair.name, "a"));
    cr_assert(slice_equal_string(pair.value, "bc"));
    cr_assert(eq(int, rbuf_finish(&r), ERR_OK));
}

Test(commands, layout_of_altered_configs_is_fixed)
{
    static const uint8_t golden[] = {
        8, 1,  2,  1,  2,  3,  4,  5,  6, 7, 8,                /* kind, version, a topic, id */
        9, 10, 11, 12, 13, 14, 15, 16, 1, 1, 'a', 2, 'b', 'c', /* configs */
    };
    struct command decoded;
    cr_assert(eq(int, command_decode(slice_of(golden, sizeof(golden)), &decoded), ERR_OK));
    cr_assert(uuid_equal(&decoded.configs_altered.topic_id, &id));
    cr_assert(eq(u32, decoded.configs_altered.configs_count, 1));
    cr_assert(eq(sz, decoded.configs_altered.configs.size, 5));
    static const uint8_t golden_group[] = {
        8, 1, 32, 1, 'g', 1, 1, 'a', 2, 'b', 'c', /* kind, version, a group, name, configs */
    };
    cr_assert(
        eq(int, command_decode(slice_of(golden_group, sizeof(golden_group)), &decoded), ERR_OK));
    cr_assert(eq(int, decoded.configs_altered.resource, CONFIG_RESOURCE_GROUP));
    cr_assert(slice_equal_string(decoded.configs_altered.name, "g"));
    cr_assert(eq(u32, decoded.configs_altered.configs_count, 1));
    static const uint8_t newer[] = {8, 1, 64, 1, 'g', 0};
    cr_assert(eq(int, command_decode(slice_of(newer, sizeof(newer)), &decoded), ERR_NEWER_FORMAT));
}

Test(commands, layout_of_added_partitions_is_fixed)
{
    static const uint8_t golden[] = {
        7, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, /* kind, version, id */
        0, 0, 0, 2, 0, 0, 0, 4,                                      /* from 2 to 4 partitions */
        2, /* directories: two ids, then one byte for each new partition */
        1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,  1,  1,  1,  1,  2,  2,
        2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2,  2,  2,  1,  0,
    };
    struct command decoded;
    cr_assert(eq(int, command_decode(slice_of(golden, sizeof(golden)), &decoded), ERR_OK));
    cr_assert(eq(int, decoded.kind, COMMAND_PARTITIONS_ADDED));
    cr_assert(eq(i32, decoded.partitions_added.first, 2));
    cr_assert(eq(i32, decoded.partitions_added.partitions_count, 4));
    cr_assert(eq(sz, decoded.partitions_added.directories.size, 2 * UUID_SIZE));
    cr_assert(eq(sz, decoded.partitions_added.directory_of.size, 2));
    cr_assert(eq(u8, decoded.partitions_added.directory_of.data[0], 1));
}

Test(commands, every_prefix_and_every_surplus_is_an_error)
{
    struct command commands[16];
    struct wbuf configs;
    const size_t count = make(commands, &configs);
    for (size_t i = 0; i < count; i++) {
        struct wbuf w;
        wbuf_init(&w, COMMAND_SIZE_MAX);
        command_encode(&commands[i], &w);
        const size_t size = w.size;
        wbuf_i8(&w, 0);
        for (size_t cut = 0; cut <= size + 1; cut++) {
            if (cut == size) {
                continue;
            }
            struct command decoded = {.kind = 99};
            enum err e = command_decode(slice_of(w.data, cut), &decoded);
            cr_assert(ne(int, e, ERR_OK), "command %zu cut at %zu", i, cut);
            cr_assert(eq(int, decoded.kind, 99));
        }
        wbuf_done(&w);
    }
    wbuf_done(&configs);
}

Test(commands, what_a_newer_program_wrote_is_said_to_be_newer)
{
    struct command decoded;
    const uint8_t kind[] = {77, 1};
    const uint8_t version[] = {1, 2, 0, 1};
    cr_assert(eq(int, command_decode(slice_of(kind, sizeof(kind)), &decoded), ERR_NEWER_FORMAT));
    cr_assert(
        eq(int, command_decode(slice_of(version, sizeof(version)), &decoded), ERR_NEWER_FORMAT));
}

Test(commands, hostile_counts_are_refused)
{
    uint8_t topic[] = {
        3,  1, 1,   2, 3, 4, 5, 6, 7, 8, 9,    10,   11,   12,   13,   14, 15,
        16, 1, 't', 0, 0, 0, 3, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, /* directories: 2^32 - 1 */
    };
    struct command decoded;
    cr_assert(ne(int, command_decode(slice_of(topic, sizeof(topic)), &decoded), ERR_OK));

    const struct command none = {
        COMMAND_TOPIC_CREATED,
        .topic_created = {.id = id, .name = slice_of_string("t"), .partitions_count = 0},
    };
    const uint8_t third[] = {0, 2, 0};
    const struct command nowhere = {
        COMMAND_TOPIC_CREATED,
        .topic_created = {.id = id,
                          .name = slice_of_string("t"),
                          .partitions_count = 3,
                          .replication_factor = 1,
                          .directories = slice_of(two, sizeof(two)),
                          .directory_of = slice_of(third, sizeof(third))},
    };
    const struct command ids = {COMMAND_PRODUCER_IDS, .producer_ids = {1, -1, 1000}};
    const struct command fewer = {
        COMMAND_PARTITIONS_ADDED,
        .partitions_added = {id, 5, 5, slice_of(two, sizeof(two[0])), {0}},
    };
    const struct command elsewhere = {
        COMMAND_PARTITIONS_ADDED,
        .partitions_added = {id, 2, 5, slice_of(two, sizeof(two)), slice_of(third, sizeof(third))},
    };
    const struct command *bad[] = {&none, &nowhere, &ids, &fewer, &elsewhere};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct wbuf w;
        wbuf_init(&w, COMMAND_SIZE_MAX);
        command_encode(bad[i], &w);
        cr_assert(eq(int, command_decode(wbuf_slice(&w), &decoded), ERR_CORRUPT));
        wbuf_done(&w);
    }
}

Test(commands, a_stream_gives_back_its_commands)
{
    struct wbuf stream;
    wbuf_init(&stream, 1000);
    command_stream_add(&stream, slice_of_string("one"));
    command_stream_add(&stream, slice_of_string("three"));
    struct rbuf r = rbuf_over(stream.data, stream.size);
    struct slice command;
    cr_assert(eq(int, command_stream_next(&r, &command), ERR_OK));
    cr_assert(slice_equal_string(command, "one"));
    cr_assert(eq(int, command_stream_next(&r, &command), ERR_OK));
    cr_assert(slice_equal_string(command, "three"));
    cr_assert(eq(int, command_stream_next(&r, &command), ERR_EOF));

    r = rbuf_over(stream.data, stream.size - 1);
    cr_assert(eq(int, command_stream_next(&r, &command), ERR_OK));
    cr_assert(eq(int, command_stream_next(&r, &command), ERR_CORRUPT));
    wbuf_done(&stream);
}
