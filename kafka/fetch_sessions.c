#include "kafka/fetch_sessions.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

enum {
    BUCKETS_COUNT_MIN = 8,
    EPOCH_FIRST = 1,
};

struct fetch_sessions {
    struct fetch_sessions_options options;
    struct list lru;
    struct fetch_session **slots; /* By id: open addressing, never more than half full. */
    uint32_t slots_count;
    uint32_t count;
    uint64_t serial_last;
    size_t size; /* Of all sessions. */
};

/* ---- the cache ---- */

struct fetch_sessions *fetch_sessions_new(const struct fetch_sessions_options *options)
{
    struct fetch_sessions *fs = calloc(1, sizeof(*fs));
    if (fs == NULL) {
        return NULL;
    }
    fs->options = *options;
    list_init(&fs->lru);
    fs->slots_count = BUCKETS_COUNT_MIN;
    while (fs->slots_count < 2 * options->sessions_max) {
        fs->slots_count *= 2;
    }
    fs->slots = calloc(fs->slots_count, sizeof(struct fetch_session *));
    if (fs->slots == NULL) {
        free(fs);
        return NULL;
    }
    return fs;
}

uint32_t fetch_sessions_count(const struct fetch_sessions *fs)
{
    return fs->count;
}

static uint32_t slot_of(const struct fetch_sessions *fs, int32_t id)
{
    return (uint32_t)hash_bytes(fs->options.hash_seed, &id, sizeof(id)) & (fs->slots_count - 1);
}

/* Where a session of that id is, or would be. */
static uint32_t find_slot(const struct fetch_sessions *fs, int32_t id)
{
    uint32_t at = slot_of(fs, id);
    while (fs->slots[at] != NULL && fs->slots[at]->id != id) {
        at = (at + 1) & (fs->slots_count - 1);
    }
    return at;
}

struct fetch_session *fetch_sessions_find(struct fetch_sessions *fs, int32_t id)
{
    return fs->slots[find_slot(fs, id)];
}

/* Closes the gap: what a probe of it would no longer reach moves into it (Knuth 6.4, R). */
static void clear_slot(struct fetch_sessions *fs, uint32_t gap)
{
    const uint32_t mask = fs->slots_count - 1;
    fs->slots[gap] = NULL;
    for (uint32_t at = (gap + 1) & mask; fs->slots[at] != NULL; at = (at + 1) & mask) {
        const uint32_t home = slot_of(fs, fs->slots[at]->id);
        if (((at - home) & mask) >= ((at - gap) & mask)) {
            fs->slots[gap] = fs->slots[at];
            fs->slots[at] = NULL;
            gap = at;
        }
    }
}

static size_t part_size(const struct fetch_session_part *part)
{
    return sizeof(*part) + part->topic_size;
}

static void add_size(struct fetch_sessions *fs, struct fetch_session *session, size_t size)
{
    session->size += size;
    fs->size += size;
}

void fetch_sessions_close(struct fetch_sessions *fs, struct fetch_session *session)
{
    clear_slot(fs, find_slot(fs, session->id));
    list_remove(&session->lru);
    fs->count--;
    fs->size -= session->size;
    struct list *node;
    while ((node = list_pop_front(&session->parts)) != NULL) {
        free(container_of(node, struct fetch_session_part, link));
    }
    free(session->buckets);
    free(session);
}

void fetch_sessions_free(struct fetch_sessions *fs)
{
    if (fs == NULL) {
        return;
    }
    while (!list_is_empty(&fs->lru)) {
        fetch_sessions_close(fs, container_of(fs->lru.next, struct fetch_session, lru));
    }
    free(fs->slots);
    free(fs);
}

/* ---- room ---- */

/* The smallest of those that had their time. */
static struct fetch_session *find_smallest(struct fetch_sessions *fs, uint64_t now_us)
{
    struct fetch_session *smallest = NULL;
    list_for_each (node, &fs->lru) {
        struct fetch_session *session = container_of(node, struct fetch_session, lru);
        if (now_us - session->created_us > fs->options.eviction_us &&
            (smallest == NULL || session->parts_count < smallest->parts_count)) {
            smallest = session;
        }
    }
    return smallest;
}

static bool is_full(const struct fetch_sessions *fs)
{
    return fs->count >= fs->options.sessions_max || fs->size >= FETCH_SESSIONS_SIZE_MAX;
}

/* Those that nobody used for long, as far as they are in the way. */
static void close_idle(struct fetch_sessions *fs, uint64_t now_us)
{
    while (is_full(fs) && !list_is_empty(&fs->lru)) {
        struct fetch_session *oldest = container_of(fs->lru.next, struct fetch_session, lru);
        if (now_us - oldest->used_us <= fs->options.eviction_us) {
            return;
        }
        fetch_sessions_close(fs, oldest);
    }
}

static void use(struct fetch_sessions *fs, struct fetch_session *session, uint64_t now_us)
{
    session->used_us = now_us;
    list_remove(&session->lru);
    list_push_back(&fs->lru, &session->lru);
}

static bool make_room(struct fetch_sessions *fs, uint32_t parts_count, uint64_t now_us)
{
    close_idle(fs, now_us);
    if (!is_full(fs)) {
        return true;
    }
    struct fetch_session *smallest = find_smallest(fs, now_us);
    if (smallest == NULL || smallest->parts_count >= parts_count) {
        return false;
    }
    fetch_sessions_close(fs, smallest);
    return !is_full(fs);
}

/* Positive, this shard's, and nobody's yet. */
static int32_t new_id(struct fetch_sessions *fs)
{
    int32_t id;
    do {
        const uint64_t number = 1 + rand_below(fs->options.rand, INT32_MAX / SHARDS_MAX - 1);
        id = (int32_t)(number * SHARDS_MAX) + fs->options.shard_id;
    } while (fetch_sessions_find(fs, id) != NULL);
    return id;
}

struct fetch_session *
fetch_sessions_open(struct fetch_sessions *fs, bool is_by_id, uint32_t parts_count, uint64_t now_us)
{
    if (!make_room(fs, parts_count, now_us)) {
        return NULL;
    }
    struct fetch_session *session = calloc(1, sizeof(*session));
    if (session == NULL) {
        return NULL;
    }
    session->buckets_count = BUCKETS_COUNT_MIN; /* It grows. */
    session->buckets = calloc(session->buckets_count, sizeof(struct fetch_session_part *));
    if (session->buckets == NULL) {
        free(session);
        return NULL;
    }
    session->id = new_id(fs);
    session->epoch = EPOCH_FIRST;
    session->serial = ++fs->serial_last;
    session->is_by_id = is_by_id;
    session->created_us = now_us;
    session->used_us = now_us;
    list_init(&session->parts);
    list_push_back(&fs->lru, &session->lru);
    fs->slots[find_slot(fs, session->id)] = session;
    fs->count++;
    add_size(fs,
             session,
             sizeof(*session) + session->buckets_count * sizeof(struct fetch_session_part *));
    return session;
}

/* ---- partitions ---- */

/* A partition as requests name it. */
struct part_key {
    struct slice topic; /* Empty in sessions of topic ids. */
    struct uuid topic_id;
    int32_t partition;
};

static uint64_t hash_of(const struct fetch_sessions *fs, const struct part_key *key)
{
    const uint64_t seed =
        fs->options.hash_seed ^
        hash_bytes(fs->options.hash_seed, key->topic_id.bytes, sizeof(key->topic_id.bytes));
    return hash_bytes(seed + (uint32_t)key->partition * UINT64_C(0x9e3779b97f4a7c15),
                      key->topic.data,
                      key->topic.size);
}

static struct fetch_session_part **find_part(const struct fetch_sessions *fs,
                                             const struct fetch_session *session,
                                             const struct part_key *key)
{
    struct fetch_session_part **at =
        &session->buckets[hash_of(fs, key) & (session->buckets_count - 1)];
    for (; *at != NULL; at = &(*at)->next) {
        const struct fetch_session_part *part = *at;
        if (part->in.partition == key->partition && uuid_equal(&part->topic_id, &key->topic_id) &&
            slice_equal(slice_of(part->topic, part->topic_size), key->topic)) {
            break;
        }
    }
    return at;
}

static struct part_key
key_of(const struct fetch_session *session, const struct slice topic, const struct uuid *topic_id)
{
    return session->is_by_id ? (struct part_key){.topic = slice_of("", 0), .topic_id = *topic_id}
                             : (struct part_key){.topic = topic};
}

/* Twice as many buckets; without memory for them it goes on as it is. */
static void grow(struct fetch_sessions *fs, struct fetch_session *session)
{
    const uint32_t old_count = session->buckets_count;
    struct fetch_session_part **buckets = calloc(2 * (size_t)old_count, sizeof(*buckets));
    if (buckets == NULL) {
        return;
    }
    free(session->buckets);
    session->buckets = buckets;
    session->buckets_count = 2 * old_count;
    add_size(fs, session, old_count * sizeof(*buckets));
    list_for_each (node, &session->parts) {
        struct fetch_session_part *part = container_of(node, struct fetch_session_part, link);
        const struct part_key key = {
            .topic = slice_of(part->topic, part->topic_size),
            .topic_id = part->topic_id,
            .partition = part->in.partition,
        };
        struct fetch_session_part **at = &buckets[hash_of(fs, &key) & (session->buckets_count - 1)];
        part->next = *at;
        *at = part;
    }
}

/* For one more partition of session, which is in use and so never the one that is closed. */
static bool has_memory(struct fetch_sessions *fs, struct fetch_session *session, uint64_t now_us)
{
    if (fs->size >= FETCH_SESSIONS_SIZE_MAX) {
        use(fs, session, now_us);
        close_idle(fs, now_us);
    }
    return fs->size < FETCH_SESSIONS_SIZE_MAX;
}

struct fetch_session_part *fetch_session_put(struct fetch_sessions *fs,
                                             struct fetch_session *session,
                                             const struct fetch_request_topic *topic,
                                             const struct fetch_request_partition *in,
                                             uint64_t now_us)
{
    struct part_key key = key_of(session, topic->topic, &topic->topic_id);
    key.partition = in->partition;
    struct fetch_session_part **at = find_part(fs, session, &key);
    if (*at != NULL) {
        (*at)->in = *in;
        return *at;
    }
    if (!has_memory(fs, session, now_us)) {
        return NULL;
    }
    if (session->parts_count >= session->buckets_count) {
        grow(fs, session);
        at = find_part(fs, session, &key);
    }
    struct fetch_session_part *part = calloc(1, sizeof(*part) + key.topic.size);
    if (part == NULL) {
        return NULL;
    }
    part->in = *in;
    part->high_watermark = -1;
    part->log_start_offset = -1;
    part->topic_id = key.topic_id;
    part->topic_size = key.topic.size;
    memcpy(part->topic, key.topic.data, key.topic.size);
    *at = part;
    list_push_back(&session->parts, &part->link);
    session->parts_count++;
    add_size(fs, session, part_size(part));
    return part;
}

static void
forget(struct fetch_sessions *fs, struct fetch_session *session, const struct part_key *key)
{
    struct fetch_session_part **at = find_part(fs, session, key);
    struct fetch_session_part *part = *at;
    if (part == NULL) {
        return;
    }
    *at = part->next;
    list_remove(&part->link);
    session->parts_count--;
    session->size -= part_size(part);
    fs->size -= part_size(part);
    free(part);
}

static bool put_all(struct fetch_sessions *fs,
                    struct fetch_session *session,
                    const struct fetch_request *in,
                    uint64_t now_us)
{
    for (size_t i = 0; i < in->topics_count; i++) {
        for (size_t k = 0; k < in->topics[i].partitions_count; k++) {
            if (fetch_session_put(
                    fs, session, &in->topics[i], &in->topics[i].partitions[k], now_us) == NULL) {
                return false;
            }
        }
    }
    return true;
}

static void
forget_all(struct fetch_sessions *fs, struct fetch_session *session, const struct fetch_request *in)
{
    for (size_t i = 0; i < in->forgotten_topics_data_count; i++) {
        const struct fetch_request_forgotten_topic *topic = &in->forgotten_topics_data[i];
        struct part_key key = key_of(session, topic->topic, &topic->topic_id);
        for (size_t k = 0; k < topic->partitions_count; k++) {
            key.partition = topic->partitions[k];
            forget(fs, session, &key);
        }
    }
}

enum kafka_error fetch_session_update(struct fetch_sessions *fs,
                                      struct fetch_session *session,
                                      const struct fetch_request *in,
                                      bool is_by_id,
                                      uint64_t now_us)
{
    if (in->session_epoch != session->epoch) {
        return KAFKA_INVALID_FETCH_SESSION_EPOCH;
    }
    if (is_by_id != session->is_by_id) {
        return KAFKA_FETCH_SESSION_TOPIC_ID_ERROR;
    }
    if (!put_all(fs, session, in, now_us)) {
        fetch_sessions_close(fs, session);
        return KAFKA_FETCH_SESSION_ID_NOT_FOUND;
    }
    forget_all(fs, session, in);
    session->epoch = session->epoch == INT32_MAX ? EPOCH_FIRST : session->epoch + 1;
    use(fs, session, now_us);
    return KAFKA_NONE;
}

bool fetch_session_take(struct fetch_session *session,
                        struct fetch_session_part *part,
                        const struct fetch_response_partition *out)
{
    const bool is_failed = out->error_code != KAFKA_NONE || out->diverging_epoch.epoch >= 0;
    const bool is_changed = is_failed || out->records.size > 0 ||
                            out->high_watermark != part->high_watermark ||
                            out->log_start_offset != part->log_start_offset;
    /* That it is well again has to be told, too. */
    part->high_watermark = is_failed ? -1 : out->high_watermark;
    part->log_start_offset = out->log_start_offset;
    if (out->records.size > 0) {
        list_remove(&part->link);
        list_push_back(&session->parts, &part->link);
    }
    return is_changed;
}

static void check_session(const struct fetch_sessions *fs, const struct fetch_session *session)
{
    assert(fs->slots[find_slot(fs, session->id)] == session);
    assert_cmp(session->id % SHARDS_MAX, ==, fs->options.shard_id);
    assert_cmp(session->epoch, >=, EPOCH_FIRST);
    size_t size = sizeof(*session) + session->buckets_count * sizeof(struct fetch_session_part *);
    uint32_t count = 0;
    list_for_each (node, &session->parts) {
        const struct fetch_session_part *part = container_of(node, struct fetch_session_part, link);
        size += part_size(part);
        count++;
    }
    assert_cmp(count, ==, session->parts_count);
    assert_cmp(size, ==, session->size);
}

void fetch_sessions_check(const struct fetch_sessions *fs)
{
    size_t size = 0;
    uint32_t count = 0;
    list_for_each (node, &fs->lru) {
        const struct fetch_session *session = container_of(node, struct fetch_session, lru);
        check_session(fs, session);
        size += session->size;
        count++;
    }
    assert_cmp(count, ==, fs->count);
    assert_cmp(count, <=, fs->options.sessions_max);
    assert_cmp(size, ==, fs->size);
}
