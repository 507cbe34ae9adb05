#include "broker/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/topic_configs.h"
#include "core/list.h"

enum {
    WORDS_SIZE = 128,
    DOC_SIZE = 160,
};

/* clang-format off */
static const struct config_option own_options[] = {
    {OPTION_ADVERTISED_LISTENERS, CONFIG_LIST, "", 0, 0, NULL, NULL, "NAME://HOST:PORT that clients are told for each listener; without it the listener's own address, or the host's name where that is a wildcard.", false},
    {OPTION_AUTO_CREATE, CONFIG_BOOL, "true", 0, 0, NULL, NULL, "Topics are created when a client asks for their metadata and allows it.", false},
    {OPTION_RACK, CONFIG_STRING, "", 0, 0, NULL, NULL, "Where the node stands, as clients are told.", false},
    {OPTION_CONNECTIONS_IDLE, CONFIG_DURATION_MS, "600000", 0, 0, NULL, NULL, "A connection without a request for so long is closed; 0 = never.", false},
    {OPTION_ADMIN_LISTENER, CONFIG_STRING, "127.0.0.1:9644", 0, 0, NULL, NULL, "HOST:PORT of the admin HTTP server; empty = none.", false},
    {OPTION_CONN_FRAMES_MAX, CONFIG_SIZE, "33554432", 4096, INT64_MAX, NULL, NULL, "Memory for requests in flight per connection; one request is always let in.", false},
    {OPTION_CONN_REQUESTS_MAX, CONFIG_INT, "64", 1, 65536, NULL, "requests", "Requests in flight per connection; further ones are not read.", false},
    {OPTION_CORES, CONFIG_STRING, "all", 0, 0, NULL, NULL, "CPUs to run on, one shard each: numbers and ranges (0-3,6), or all that the process may use.", false},
    {OPTION_CHECKPOINT, CONFIG_SIZE, "67108864", 0, INT64_MAX, NULL, NULL, "Bytes appended to a partition after which a checkpoint is written, so that a start reads no more than about that; 0 = never, and a start reads everything.", false},
    {OPTION_DISK_RESERVE, CONFIG_SIZE, "0", 0, INT64_MAX, NULL, NULL, "Kept free on the disk of each data directory: below it records are refused, below half of it the broker's own too, so that deletes always work; 0 = 2 % of the disk, at least 32 MiB, at most 1 GiB or a quarter of the disk.", false},
    {OPTION_PINNED, CONFIG_SIZE, "33554432", 0, INT64_MAX, NULL, NULL, "Per core, memory that answers to consumers may refer to until they are taken, instead of being copied; beyond it they are copied; at most an eighth of the core's memory; 0 = all are copied.", false},
    {OPTION_RECYCLE, CONFIG_SIZE, "4294967296", 0, INT64_MAX, NULL, NULL, "Per core and data directory, files of deleted segments kept to be written again instead of new ones: half of the writes of a topic that deletes what is old; over all cores at most a tenth of the disk; 0 = none, what is deleted is freed.", false},
    {OPTION_LOST_DIRS, CONFIG_LIST, "", 0, 0, NULL, NULL, "Ids (directory_id) of data directories that are gone for good, so that the node starts without them; their partitions answer errors until their topics are deleted.", false},
    {OPTION_LOG_LEVEL, CONFIG_ENUM, "info", 0, 0, "debug|info|warn|error", NULL, "Less important lines are not logged.", false},
    {OPTION_MEMORY, CONFIG_SIZE, "0", 0, 0, NULL, NULL, "Memory for buffers over all cores, rounded down to a power of two per core; 0 = 256 MiB per core, but at most a quarter of the machine's.", false},
    {OPTION_BACKGROUND_BYTES, CONFIG_SIZE, "67108864", 0, INT64_MAX / 1000000 / 1000, NULL, "bytes per second", "Per core and data directory, what rewriting of logs may read and write; 0 = no limit.", false},
    {OPTION_BACKGROUND_OPS, CONFIG_INT, "20", 0, 1000000, NULL, "operations per second", "Per core and data directory, files that may be removed or rewritten; 0 = no limit.", false},
    {OPTION_MEMORY_LOCK, CONFIG_BOOL, "true", 0, 0, NULL, NULL, "Buffers are registered with the kernel, which needs locked memory and makes I/O cheaper.", false},
    {OPTION_PRODUCERS_MAX, CONFIG_INT, "10000", 1, INT32_MAX, NULL, "producers", "Idempotent producers remembered per partition; the least recently heard of goes first.", false},
    {OPTION_PARTITIONS_MAX, CONFIG_INT, "100000", 1, INT32_MAX, NULL, "partitions", "Partitions of all topics together; creating more is refused.", false},
    {OPTION_READAHEAD, CONFIG_SIZE, "16777216", 0, INT64_MAX, NULL, NULL, "Per core, memory for reading ahead of consumers that lag, shared evenly by them; at most an eighth of the core's memory; 0 = none.", false},
    {OPTION_STALL, CONFIG_INT, "500", 0, 60000000, NULL, "microseconds", "A shard that does one thing for longer logs what it was; 0 = never.", false},
    {OPTION_TOPIC_PARTITIONS_MAX, CONFIG_INT, "10000", 1, 1000000, NULL, "partitions", "Partitions of one topic; creating more is refused.", false},
    {OPTION_TOPICS_MAX, CONFIG_INT, "100000", 1, INT32_MAX, NULL, "topics", "Creating more is refused.", false},
    {OPTION_REPLICATION_DEFAULT, CONFIG_INT, "1", 1, 1, NULL, "replicas", "For topics created without a number of their own; there is one node so far.", false},
    {OPTION_DELETE_ENABLED, CONFIG_BOOL, "true", 0, 0, NULL, NULL, "Clients may delete topics.", false},
    {OPTION_FETCH_MAX, CONFIG_SIZE, "57671680", 1024, INT32_MAX, NULL, NULL, "Bytes of records in one answer, but for a single larger batch.", false},
    {OPTION_FETCH_SESSIONS_MAX, CONFIG_INT, "1000", 0, 1000000, NULL, "sessions", "Consumers whose fetches name only what changed, over all cores; further ones name everything each time; 0 = none.", false},
    {OPTION_PROTOCOL_MAP, CONFIG_LIST, "PLAINTEXT:PLAINTEXT", 0, 0, NULL, NULL, "NAME:PROTOCOL for each listener name; PLAINTEXT is the only protocol so far.", false},
    {OPTION_GROUPS_MAX, CONFIG_INT, "100000", 1, INT32_MAX, NULL, "groups", "Consumer groups, with members or offsets. Each core has an even share, for the groups that are at home there, and refuses further ones.", false},
    {OPTION_GROUPS_MEMBERS_MAX, CONFIG_INT, "200000", 1, INT32_MAX, NULL, "members", "Members of all groups. Each core has an even share, for the groups that are at home there, and refuses further ones.", false},
    {OPTION_GROUPS_STATE_MAX, CONFIG_SIZE, "268435456", 1 << 20, INT64_MAX, NULL, NULL, "Memory for groups, members and committed offsets. Each core has an even share, for the groups that are at home there, and refuses what would need more.", false},
    {OPTION_GROUP_HOLD, CONFIG_BOOL, "true", 0, 0, NULL, NULL, "A heartbeat of the consumer protocol waits for news, until the next would be due or its client sends anything else, so that members hear of a rebalance at once.", false},
    {OPTION_GROUP_INTERVAL, CONFIG_DURATION_MS, "1000", 0, INT32_MAX, NULL, NULL, "A group of the consumer protocol is given a new assignment at most so often.", true},
    {OPTION_GROUP_ASSIGNORS, CONFIG_LIST, "uniform,range", 0, 0, NULL, NULL, "Assignors that members of the consumer protocol may ask for: uniform, range. The first is taken where they ask for none.", false},
    {OPTION_GROUP_HEARTBEAT, CONFIG_DURATION_MS, "5000", 1, INT32_MAX, NULL, NULL, "How often members of the consumer protocol are told to send a heartbeat.", false},
    {OPTION_GROUP_INTERVAL_MAX, CONFIG_DURATION_MS, "15000", 0, INT32_MAX, NULL, NULL, "The longest consumer.assignment.interval.ms of a group.", false},
    {OPTION_GROUP_HEARTBEAT_MAX, CONFIG_DURATION_MS, "15000", 1, INT32_MAX, NULL, NULL, "The longest consumer.heartbeat.interval.ms of a group.", false},
    {OPTION_GROUP_SESSION_MAX, CONFIG_DURATION_MS, "60000", 1, INT32_MAX, NULL, NULL, "The longest consumer.session.timeout.ms of a group.", false},
    {OPTION_GROUP_SIZE_MAX, CONFIG_INT, "2147483647", 1, INT32_MAX, NULL, "members", "Members of one group of the consumer protocol; further ones are refused.", false},
    {OPTION_GROUP_MIGRATION, CONFIG_ENUM, "bidirectional", 0, 0, "bidirectional|upgrade|downgrade|disabled", NULL, "Which way a group with members may change its protocol: upgrade is from classic to consumer.", false},
    {OPTION_GROUP_INTERVAL_MIN, CONFIG_DURATION_MS, "0", 0, INT32_MAX, NULL, NULL, "The shortest consumer.assignment.interval.ms of a group.", false},
    {OPTION_GROUP_HEARTBEAT_MIN, CONFIG_DURATION_MS, "5000", 1, INT32_MAX, NULL, NULL, "The shortest consumer.heartbeat.interval.ms of a group.", false},
    {OPTION_GROUP_SESSION_MIN, CONFIG_DURATION_MS, "45000", 1, INT32_MAX, NULL, NULL, "The shortest consumer.session.timeout.ms of a group.", false},
    {OPTION_GROUP_SESSION, CONFIG_DURATION_MS, "45000", 1, INT32_MAX, NULL, NULL, "A member of the consumer protocol that is not heard of for so long is removed.", false},
    {OPTION_GROUP_PROTOCOLS, CONFIG_LIST, "classic,consumer", 0, 0, NULL, NULL, "Protocols of groups that are served: classic, which must be among them, and consumer.", false},
    {OPTION_GROUP_DELAY, CONFIG_DURATION_MS, "3000", 0, INT32_MAX, NULL, NULL, "The first rebalance of an empty group of the classic protocol waits so long for more members.", false},
    {OPTION_SESSION_MAX, CONFIG_DURATION_MS, "1800000", 1, INT32_MAX, NULL, NULL, "The longest session timeout that a member of the classic protocol may ask for.", false},
    {OPTION_GROUP_MEMBERS_MAX, CONFIG_INT, "2147483647", 1, INT32_MAX, NULL, "members", "Members of one group of the classic protocol; further ones are refused.", false},
    {OPTION_SESSION_MIN, CONFIG_DURATION_MS, "6000", 1, INT32_MAX, NULL, NULL, "The shortest session timeout that a member of the classic protocol may ask for.", false},
    {OPTION_LISTENERS, CONFIG_LIST, "PLAINTEXT://127.0.0.1:9092", 0, 0, NULL, NULL, "NAME://HOST:PORT where clients are served; no host = all addresses, port 0 = any free one.", false},
    {OPTION_CLEANER_BACKOFF, CONFIG_DURATION_MS, "15000", 0, INT64_MAX / 1000 / 100, NULL, NULL, "How long each core rests between two looks at what could be compacted.", true},
    {OPTION_CLEANER_KEYS_MAX, CONFIG_SIZE, "134217728", 1 << 20, INT64_MAX, NULL, NULL, "Memory for keys while compacting, over all cores; with more keys than fit a log is read several times.", true},
    {OPTION_CLEANER_ENABLED, CONFIG_BOOL, "true", 0, 0, NULL, NULL, "Topics are compacted as their cleanup.policy says; without it their superseded records stay.", false},
    {OPTION_DATA_DIRS, CONFIG_LIST, "data", 0, 0, NULL, NULL, "Where the data lie: one or several directories, best each on a disk of its own. In any order; new partitions go where there is space.", false},
    {OPTION_RETENTION_INTERVAL, CONFIG_DURATION_MS, "300000", 1, INT64_MAX / 1000, NULL, NULL, "How often each core looks for records that retention lets go.", false},
    {OPTION_CONNECTIONS_MAX, CONFIG_INT, "100000", 1, INT32_MAX, NULL, "connections", "Further connections are closed at once; each core takes an equal share.", true},
    {OPTION_NODE_ID, CONFIG_INT, "1", 0, INT32_MAX, NULL, NULL, "The node's number in the cluster; data of another node are refused.", false},
    {OPTION_OFFSETS_METADATA_MAX, CONFIG_SIZE, "4096", 0, INT32_MAX, NULL, NULL, "Text that a consumer may keep with a committed offset.", false},
    {OPTION_OFFSETS_TIMEOUT, CONFIG_DURATION_MS, "5000", 1, INT32_MAX, NULL, NULL, "A commit, the deletion of offsets and a leave are answered with an error if they are not durable within so long.", false},
    {OPTION_OFFSETS_CHECK, CONFIG_DURATION_MS, "600000", 1, INT64_MAX / 1000, NULL, NULL, "How often offsets are looked at that may have expired.", false},
    {OPTION_OFFSETS_RETENTION, CONFIG_INT, "10080", 1, INT32_MAX, NULL, "minutes", "Committed offsets are kept for so long after their group has had its last member, or read the topic.", false},
    {OPTION_OFFSETS_PARTITIONS, CONFIG_INT, "50", 1, 10000, NULL, "partitions", "Of the topic that groups and offsets are kept in, when it is created; it never changes.", false},
    {OPTION_OFFSETS_REPLICATION, CONFIG_INT, "3", 1, 32767, NULL, "replicas", "Of that topic, when it is created; as many as there are nodes, if there are fewer.", false},
    {OPTION_OFFSETS_SEGMENT, CONFIG_SIZE, "8388608", 1048576, INT32_MAX, NULL, NULL, "Segments of that topic, when it is created. Small ones are compacted sooner, and the node starts sooner.", false},
    {OPTION_PARTITIONS_DEFAULT, CONFIG_INT, "1", 1, 1000000, NULL, "partitions", "For topics created without a number of their own.", false},
    {OPTION_PRODUCER_EXPIRATION, CONFIG_DURATION_MS, "86400000", 1, INT32_MAX, NULL, NULL, "An idempotent producer that did not write for so long is forgotten.", true},
    {OPTION_REQUEST_SIZE_MAX, CONFIG_SIZE, "104857600", 1024, INT32_MAX, NULL, NULL, "A larger request closes its connection; at most a quarter of a core's memory.", false},
};
/* clang-format on */

enum {
    OWN_OPTIONS_COUNT = sizeof(own_options) / sizeof(own_options[0]),
};

/* The table and the text that its rows point at. */
struct options {
    struct config_table table;
    struct config_option *rows;
    char (*words)[WORDS_SIZE];
    char (*docs)[DOC_SIZE];
};

static bool has_suffix(const char *text, const char *suffix)
{
    const size_t text_size = strlen(text);
    const size_t suffix_size = strlen(suffix);
    return text_size >= suffix_size && strcmp(text + text_size - suffix_size, suffix) == 0;
}

static enum config_type type_of_number(const struct topic_config *c)
{
    if (has_suffix(c->name, ".bytes")) {
        return CONFIG_SIZE;
    }
    return has_suffix(c->name, ".ms") ? CONFIG_DURATION_MS : CONFIG_INT;
}

/* DOUBLE and LIST have no type of their own here: their text is checked as the topic's would be
 * (settings.c). */
static enum config_type type_of(const struct topic_config *c)
{
    switch (c->type) {
    case TOPIC_CONFIG_BOOLEAN:
        return CONFIG_BOOL;
    case TOPIC_CONFIG_INT:
    case TOPIC_CONFIG_LONG:
        return type_of_number(c);
    case TOPIC_CONFIG_STRING:
        return c->choices != NULL ? CONFIG_ENUM : CONFIG_STRING;
    case TOPIC_CONFIG_LIST:
    case TOPIC_CONFIG_DOUBLE:
        break;
    }
    return CONFIG_STRING;
}

static const char *effect_text(enum topic_config_effect effect)
{
    switch (effect) {
    case TOPIC_CONFIG_HONOURED:
        return "";
    case TOPIC_CONFIG_PENDING:
        return " Stored; takes no effect yet.";
    case TOPIC_CONFIG_POINTLESS:
        break;
    }
    return " Stored; there is nothing here that it could change.";
}

static void fill_synonym(struct options *o, size_t row, const struct topic_config *c)
{
    char *words = o->words[row];
    char *doc = o->docs[row];
    (void)snprintf(words, WORDS_SIZE, "%s", c->choices != NULL ? c->choices : "");
    for (char *p = words; *p != '\0'; p++) {
        if (*p == ',') {
            *p = '|';
        }
    }
    (void)snprintf(
        doc, DOC_SIZE, "For topics without a %s of their own.%s", c->name, effect_text(c->effect));
    const enum config_type type = type_of(c);
    o->rows[row] = (struct config_option){
        .name = c->broker_name,
        .type = type,
        .fallback = topic_config_secondary(c->broker_name, 0) == NULL ? c->default_value : NULL,
        .min = c->min,
        .max = c->max,
        .words = type == CONFIG_ENUM ? words : NULL,
        .doc = doc,
        .is_dynamic = true,
    };
}

static void fill_secondary(struct options *o, size_t row, const struct topic_config_secondary *s)
{
    char *doc = o->docs[row];
    (void)snprintf(doc, DOC_SIZE, "Counts where %s is not set.", s->broker_name);
    const bool is_ms = s->unit == 1;
    o->rows[row] = (struct config_option){
        .name = s->name,
        .type = is_ms ? CONFIG_DURATION_MS : CONFIG_INT,
        .fallback = s->default_value,
        .min = s->min,
        .max = s->max,
        .unit = is_ms                           ? NULL
                : has_suffix(s->name, ".hours") ? "hours"
                                                : "minutes",
        .doc = doc,
    };
}

static int by_name(const void *a, const void *b)
{
    const struct config_option *left = a;
    const struct config_option *right = b;
    return strcmp(left->name, right->name);
}

enum err options_new(struct config_table **ret_table)
{
    const size_t count_max =
        OWN_OPTIONS_COUNT + (1 + TOPIC_CONFIG_SECONDARIES_MAX) * (size_t)topic_configs_count();
    struct options *o = calloc(1, sizeof(*o));
    if (o == NULL) {
        return ERR_BUSY;
    }
    o->rows = calloc(count_max, sizeof(*o->rows));
    o->words = calloc(count_max, sizeof(*o->words));
    o->docs = calloc(count_max, sizeof(*o->docs));
    if (o->rows == NULL || o->words == NULL || o->docs == NULL) {
        options_free(&o->table);
        return ERR_BUSY;
    }
    memcpy(o->rows, own_options, sizeof(own_options));
    size_t count = OWN_OPTIONS_COUNT;
    for (uint32_t i = 0; i < topic_configs_count(); i++) {
        const struct topic_config *c = topic_config_at(i);
        if (c->broker_name == NULL) {
            continue;
        }
        fill_synonym(o, count++, c);
        for (uint32_t j = 0; topic_config_secondary(c->broker_name, j) != NULL; j++) {
            fill_secondary(o, count++, topic_config_secondary(c->broker_name, j));
        }
    }
    qsort(o->rows, count, sizeof(*o->rows), by_name);
    o->table = (struct config_table){.options = o->rows, .count = count};
    *ret_table = &o->table;
    return ERR_OK;
}

void options_free(struct config_table *t)
{
    if (t == NULL) {
        return;
    }
    struct options *o = container_of(t, struct options, table);
    free(o->rows);
    free(o->words);
    free(o->docs);
    free(o);
}
