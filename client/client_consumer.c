/* The program's side of the consumer: positions set and moved, records handed out. */
#include "client/client_consumer.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client/client_priv.h"
#include "core/assert.h"

enum {
    FETCH_SIZE_DEFAULT = 16 << 20,
    PARTITION_SIZE_DEFAULT = 1 << 20,
    BUFFER_SIZE_DEFAULT = 64 << 20,
};

/* ---- life ---- */

static uint32_t size_or(uint32_t size, uint32_t fallback)
{
    size = size == 0 ? fallback : size;
    return size > INT32_MAX ? INT32_MAX : size;
}

struct client_consumer *client_consumer_create(struct client *c,
                                               const struct client_consumer_options *options)
{
    struct client_consumer *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        return NULL;
    }
    s->client = c;
    s->failed_partition = -1;
    if (options != NULL) {
        s->options = *options;
    }
    struct client_consumer_options *o = &s->options;
    o->fetch_size_max = size_or(o->fetch_size_max, FETCH_SIZE_DEFAULT);
    o->partition_size_max = size_or(o->partition_size_max, PARTITION_SIZE_DEFAULT);
    o->buffer_size = o->buffer_size == 0 ? BUFFER_SIZE_DEFAULT : o->buffer_size;
    list_init(&s->link);
    list_init(&s->requests);
    list_init(&s->topic.link);
    client_lock(c);
    list_push_back(&c->consumers, &s->link);
    client_unlock(c);
    return s;
}

enum err client_consumer_new(struct client *c,
                             const char *topic,
                             const struct client_consumer_options *options,
                             struct client_consumer **ret_consumer)
{
    struct client_topic t;
    enum err e = client_topic_init(c, topic, &t);
    if (e != ERR_OK) {
        return e;
    }
    struct client_consumer *s = client_consumer_create(c, options);
    if (s == NULL) {
        client_topic_done(&t);
        return client_fail(c, ERR_BUSY, "no memory for a consumer");
    }
    client_lock(c);
    s->topic = t;
    client_topic_follow(c, &s->topic);
    client_unlock(c);
    *ret_consumer = s;
    return ERR_OK;
}

void client_chunk_free(struct client_consumer *s, struct client_chunk *chunk)
{
    struct client_frame *frame = chunk->frame;
    list_remove(&chunk->link);
    client_walk_done(&chunk->walk);
    free(chunk);
    frame->refs--;
    if (frame->refs == 0) {
        s->buffered_size -= frame->size;
        free(frame->bytes);
        free(frame);
    }
}

static void drop_chunks(struct client_consumer *s, struct client_position *p)
{
    while (!list_is_empty(&p->chunks)) {
        client_chunk_free(s, container_of(p->chunks.next, struct client_chunk, link));
    }
    p->chunks_size = 0;
    if (s->current_position == p) {
        client_chunk_free(s, s->current);
        s->current = NULL;
        s->current_position = NULL;
        s->records.records_count = 0;
        s->records_next = 0;
    }
}

void client_consumer_free(struct client_consumer *s)
{
    if (s == NULL) {
        return;
    }
    struct client *c = s->client;
    client_lock(c);
    list_remove(&s->link);
    client_topic_unfollow(&s->topic);
    client_fetch_abandon(s);
    client_links_drop(c, s);
    client_wake(c, 0);
    for (size_t i = 0; i < s->positions_count; i++) {
        drop_chunks(s, s->positions[i]);
        free(s->positions[i]);
    }
    client_unlock(c);
    free(s->positions);
    client_records_done(&s->records);
    client_topic_done(&s->topic);
    free(s);
}

int32_t client_consumer_partitions_count(struct client_consumer *s)
{
    client_lock(s->client);
    const int32_t count = s->topic.partitions_count;
    client_unlock(s->client);
    return count;
}

/* ---- positions ---- */

/* Those of a topic stand together, as requests name them. */
static int compare_positions(const struct client_position *p,
                             const struct client_topic *topic,
                             int32_t partition)
{
    if (p->topic == topic) {
        return (p->partition > partition) - (p->partition < partition);
    }
    const int names = strcmp(p->topic->name, topic->name);
    return names != 0 ? names : (uintptr_t)p->topic < (uintptr_t)topic ? -1 : 1;
}

/* Where the position stands, or would. */
static size_t
place_of(const struct client_consumer *s, const struct client_topic *topic, int32_t partition)
{
    size_t from = 0;
    size_t to = s->positions_count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (compare_positions(s->positions[middle], topic, partition) < 0) {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    return from;
}

struct client_position *client_position_find(const struct client_consumer *s,
                                             const struct client_topic *topic,
                                             int32_t partition)
{
    const size_t at = place_of(s, topic, partition);
    const bool is_there =
        at < s->positions_count && compare_positions(s->positions[at], topic, partition) == 0;
    return is_there ? s->positions[at] : NULL;
}

void client_position_move(struct client_consumer *s,
                          struct client_position *p,
                          int64_t offset,
                          int64_t question)
{
    drop_chunks(s, p);
    p->serial = ++s->serial;
    p->offset = p->fetch_offset = offset;
    p->question = question;
    p->is_asked = false;
    p->is_halted = false;
    p->failures = 0;
    p->retry_us = 0;
    p->end = CLIENT_OFFSET_UNKNOWN;
    p->err = ERR_OK;
}

struct client_position *
client_position_add(struct client_consumer *s, struct client_topic *topic, int32_t partition)
{
    struct client_position **grown =
        realloc(s->positions, (s->positions_count + 1) * sizeof(struct client_position *));
    if (grown == NULL) {
        return NULL;
    }
    s->positions = grown;
    struct client_position *p = calloc(1, sizeof(*p));
    if (p != NULL) {
        p->topic = topic;
        p->partition = partition;
        p->committed = CLIENT_OFFSET_UNKNOWN;
        list_init(&p->chunks);
        const size_t at = place_of(s, topic, partition);
        memmove(&s->positions[at + 1],
                &s->positions[at],
                (s->positions_count - at) * sizeof(struct client_position *));
        s->positions[at] = p;
        s->positions_count++;
    }
    return p;
}

void client_position_remove(struct client_consumer *s, struct client_position *p)
{
    drop_chunks(s, p);
    size_t kept = 0;
    for (size_t i = 0; i < s->positions_count; i++) {
        if (s->positions[i] != p) {
            s->positions[kept++] = s->positions[i];
        }
    }
    s->positions_count = kept;
    free(p);
}

static enum err
assign(struct client_consumer *s, int32_t partition, int64_t offset, int64_t question)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = s->client;
    enum err e = ERR_OK;
    struct client_position *p = NULL;
    client_lock(c);
    if (partition < 0 || partition >= s->topic.partitions_count) {
        e = client_say(why,
                       ERR_INVALID,
                       "topic '%s' has no partition %d, only 0 to %d",
                       s->topic.name,
                       partition,
                       s->topic.partitions_count - 1);
    } else if (client_position_find(s, &s->topic, partition) != NULL) {
        e = client_say(why, ERR_INVALID, "partition %d is assigned already", partition);
    } else if ((p = client_position_add(s, &s->topic, partition)) == NULL) {
        e = client_say(why, ERR_BUSY, "no memory for a partition");
    } else {
        client_position_move(s, p, offset, question);
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

/* An offset, or one of the names for the two ends. */
static enum err
read_offset(struct client *c, int64_t offset, int64_t *ret_offset, int64_t *ret_question)
{
    if (offset < CLIENT_OFFSET_START) {
        return client_fail(c, ERR_INVALID, "%lld is no offset", (long long)offset);
    }
    *ret_offset = offset >= 0 ? offset : CLIENT_OFFSET_UNKNOWN;
    *ret_question = offset >= 0 ? CLIENT_OFFSET_UNKNOWN : offset;
    return ERR_OK;
}

enum err client_consumer_assign(struct client_consumer *s, int32_t partition, int64_t offset)
{
    int64_t question = 0;
    enum err e = read_offset(s->client, offset, &offset, &question);
    return e == ERR_OK ? assign(s, partition, offset, question) : e;
}

enum err client_consumer_assign_time(struct client_consumer *s, int32_t partition, int64_t time_ms)
{
    if (time_ms < 0) {
        return client_fail(s->client, ERR_INVALID, "%lld is no time", (long long)time_ms);
    }
    return assign(s, partition, CLIENT_OFFSET_UNKNOWN, time_ms);
}

/* With the lock, which is left again without the position. */
static enum err
lock_position(struct client_consumer *s, int32_t partition, struct client_position **ret)
{
    client_lock(s->client);
    *ret = client_position_find(s, &s->topic, partition);
    if (*ret != NULL) {
        return ERR_OK;
    }
    client_unlock(s->client);
    return client_fail(s->client, ERR_INVALID, "partition %d is not assigned", partition);
}

enum err client_consumer_unassign(struct client_consumer *s, int32_t partition)
{
    struct client_position *p = NULL;
    enum err e = lock_position(s, partition, &p);
    if (e != ERR_OK) {
        return e;
    }
    client_position_remove(s, p);
    client_unlock(s->client);
    return ERR_OK;
}

enum err client_consumer_seek(struct client_consumer *s, int32_t partition, int64_t offset)
{
    int64_t question = 0;
    struct client_position *p = NULL;
    enum err e = read_offset(s->client, offset, &offset, &question);
    if (e == ERR_OK) {
        e = lock_position(s, partition, &p);
    }
    if (e != ERR_OK) {
        return e;
    }
    client_position_move(s, p, offset, question);
    client_unlock(s->client);
    return ERR_OK;
}

int64_t client_position_offset(const struct client_consumer *s, const struct client_position *p)
{
    const bool has_more = s->current_position == p && s->records_next < s->records.records_count;
    return has_more ? s->records.records[s->records_next].offset : p->offset;
}

void client_position_follow(const struct client_consumer *s, struct client_position *p)
{
    if (s->current_position != p && list_is_empty(&p->chunks) && p->fetch_offset >= 0) {
        p->offset = p->fetch_offset;
    }
}

void client_position_drop_ahead(struct client_consumer *s, struct client_position *p)
{
    const bool is_fetched = p->is_asked && p->fetch_offset >= 0;
    if (is_fetched || s->current_position == p || !list_is_empty(&p->chunks)) {
        const int64_t end = p->end;
        client_position_move(s, p, client_position_offset(s, p), CLIENT_OFFSET_UNKNOWN);
        p->end = end;
    }
}

void client_position_pause(struct client_consumer *s, struct client_position *p, bool is_paused)
{
    if (is_paused) {
        client_position_drop_ahead(s, p);
    }
    p->is_paused = is_paused;
    client_wake(s->client, 0);
}

static enum err set_paused(struct client_consumer *s, int32_t partition, bool is_paused)
{
    struct client_position *p = NULL;
    enum err e = lock_position(s, partition, &p);
    if (e != ERR_OK) {
        return e;
    }
    client_position_pause(s, p, is_paused);
    client_unlock(s->client);
    return ERR_OK;
}

enum err client_consumer_pause(struct client_consumer *s, int32_t partition)
{
    return set_paused(s, partition, true);
}

enum err client_consumer_resume(struct client_consumer *s, int32_t partition)
{
    return set_paused(s, partition, false);
}

int64_t client_consumer_position(struct client_consumer *s, int32_t partition)
{
    client_lock(s->client);
    const struct client_position *p = client_position_find(s, &s->topic, partition);
    const int64_t offset = p != NULL && p->offset >= 0 ? client_position_offset(s, p) : -1;
    client_unlock(s->client);
    return offset;
}

int64_t client_consumer_end(struct client_consumer *s, int32_t partition)
{
    client_lock(s->client);
    const struct client_position *p = client_position_find(s, &s->topic, partition);
    const int64_t end = p != NULL && p->end >= 0 ? p->end : -1;
    client_unlock(s->client);
    return end;
}

/* ---- records ---- */

/* True if the chunk in hand may be read on. */
static bool has_current(const struct client_consumer *s)
{
    return s->current != NULL && (s->current->walk.has_batch || s->current->walk.batches.size > 0);
}

static struct client_position *next_with_chunks(struct client_consumer *s)
{
    for (size_t i = 0; i < s->positions_count; i++) {
        struct client_position *p = s->positions[(s->turn + i) % s->positions_count];
        if (!list_is_empty(&p->chunks)) {
            s->turn = (s->turn + i + 1) % s->positions_count;
            return p;
        }
    }
    return NULL;
}

static bool is_buffered(const struct client_consumer *s)
{
    if (s->records_next < s->records.records_count || has_current(s)) {
        return true;
    }
    for (size_t i = 0; i < s->positions_count; i++) {
        if (!list_is_empty(&s->positions[i]->chunks)) {
            return true;
        }
    }
    return false;
}

static bool is_at_end(const struct client_consumer *s)
{
    if (is_buffered(s)) {
        return false;
    }
    for (size_t i = 0; i < s->positions_count; i++) {
        const struct client_position *p = s->positions[i];
        if (!p->is_paused && (p->end < 0 || p->offset < p->end)) {
            return false;
        }
    }
    return true;
}

bool client_consumer_has_buffered(struct client_consumer *s)
{
    client_lock(s->client);
    const bool has_buffered = is_buffered(s);
    client_unlock(s->client);
    return has_buffered;
}

bool client_consumer_is_at_end(struct client_consumer *s)
{
    client_lock(s->client);
    const bool is_end = is_at_end(s);
    client_unlock(s->client);
    return is_end;
}

int32_t client_consumer_failed_partition(const struct client_consumer *s)
{
    return s->failed_partition;
}

/* What was handed out is over. */
static void leave_current(struct client_consumer *s)
{
    struct client_position *p = s->current_position;
    client_chunk_free(s, s->current);
    client_wake(s->client, 0); /* There is room again. */
    s->current = NULL;
    s->current_position = NULL;
    client_position_follow(s, p);
}

/* A chunk to read from, taken off its position. False: there is none. */
static bool take_chunk(struct client_consumer *s)
{
    if (s->current != NULL) {
        return true;
    }
    struct client_position *p = next_with_chunks(s);
    if (p == NULL) {
        return false;
    }
    struct client_chunk *chunk = container_of(p->chunks.next, struct client_chunk, link);
    list_remove(&chunk->link);
    p->chunks_size -= chunk->size;
    p->offset = chunk->walk.offset;
    s->current = chunk;
    s->current_position = p;
    client_wake(s->client, 0);
    return true;
}

/* Without memory the chunk stays in hand, for the next time; what is damaged stays damaged. */
static enum err unreadable(struct client_consumer *s, enum err e, char why[CLIENT_WHY_SIZE])
{
    struct client_position *p = s->current_position;
    s->failed_partition = p->partition;
    s->failed_topic = p->topic->name;
    if (e == ERR_BUSY) {
        return client_say(why, e, "no memory for records of %s[%d]", p->topic->name, p->partition);
    }
    (void)client_say(why,
                     e,
                     "%s[%d] holds a damaged batch at offset %lld (%s)",
                     p->topic->name,
                     p->partition,
                     (long long)p->offset,
                     err_name(e));
    p->is_halted = true;
    drop_chunks(s, p);
    return ERR_CORRUPT;
}

/* Records of the chunk in hand. ERR_EOF: it has no more. With the lock, but not meanwhile. */
static enum err read_current(struct client_consumer *s, char why[CLIENT_WHY_SIZE])
{
    struct client_position *p = s->current_position;
    client_unlock(s->client);
    enum err e = client_walk_next(&s->current->walk, p->topic->name, p->partition, &s->records);
    client_lock(s->client);
    if (e == ERR_OK || e == ERR_EOF) {
        p->offset = s->current->walk.offset;
    }
    if (e == ERR_EOF) {
        leave_current(s);
        return e;
    }
    if (e != ERR_OK) {
        return unreadable(s, e, why);
    }
    s->records_next = 0;
    return ERR_OK;
}

/* Trouble with a position that the program was not told of. */
static enum err take_error(struct client_consumer *s, char why[CLIENT_WHY_SIZE])
{
    for (size_t i = 0; i < s->positions_count; i++) {
        struct client_position *p = s->positions[i];
        if (p->err != ERR_OK && list_is_empty(&p->chunks) && p != s->current_position) {
            const enum err e = p->err;
            memcpy(why, p->why, CLIENT_WHY_SIZE);
            s->failed_partition = p->partition;
            s->failed_topic = p->topic->name;
            p->err = ERR_OK;
            return e;
        }
    }
    return ERR_OK;
}

void client_consumer_begin(struct client_consumer *s)
{
    s->failed_partition = -1;
    s->failed_topic = NULL;
    if (s->polled_serial < s->serial) {
        s->polled_serial = s->serial;
        client_wake(s->client, 0);
    }
}

enum err client_consumer_read(struct client_consumer *s, char why[CLIENT_WHY_SIZE])
{
    while (take_chunk(s)) {
        enum err e = read_current(s, why);
        if (e != ERR_EOF) {
            return e;
        }
    }
    enum err e = take_error(s, why);
    return e != ERR_OK ? e : client_say(why, ERR_TIMED_OUT, "no record came in time");
}

/* Fills s->records. Ends early when the end is reached meanwhile. */
static enum err
wait_for_records(struct client_consumer *s, uint32_t timeout_ms, char why[CLIENT_WHY_SIZE])
{
    struct client *c = s->client;
    const uint64_t deadline_us = client_after_us(c, timeout_ms);
    const bool was_at_end = is_at_end(s);
    client_consumer_begin(s);
    for (;;) {
        enum err e = client_consumer_read(s, why);
        if (e != ERR_TIMED_OUT || client_now_us(c) >= deadline_us ||
            (is_at_end(s) && !was_at_end)) {
            return e;
        }
        client_wait(c, deadline_us);
    }
}

void client_consumer_release(struct client_consumer *s)
{
    s->records.records_count = 0;
    s->records_next = 0;
}

enum err client_consumer_poll(struct client_consumer *s,
                              uint32_t timeout_ms,
                              const struct client_record **ret_records,
                              size_t *ret_count)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = s->client;
    enum err e = ERR_OK;
    client_lock(c);
    if (!client_can_wait(c)) {
        e = client_say(why, ERR_INVALID, "a callback must not wait for records");
    } else if (s->records_next == s->records.records_count) {
        client_consumer_release(s);
        e = wait_for_records(s, timeout_ms, why);
    }
    if (e == ERR_OK) {
        *ret_records = &s->records.records[s->records_next];
        *ret_count = s->records.records_count - s->records_next;
        s->records_next = s->records.records_count;
    }
    client_unlock(c);
    return e == ERR_OK ? ERR_OK : client_fail(c, e, "%s", why);
}

enum err client_consumer_next(struct client_consumer *s,
                              uint32_t timeout_ms,
                              struct client_record *ret_record)
{
    if (s->records_next == s->records.records_count) {
        const struct client_record *records = NULL;
        size_t count = 0;
        enum err e = client_consumer_poll(s, timeout_ms, &records, &count);
        if (e != ERR_OK) {
            return e;
        }
        s->records_next = 0;
    }
    *ret_record = s->records.records[s->records_next++];
    return ERR_OK;
}
