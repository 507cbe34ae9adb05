#include "groups/offsets_table.h"

#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/ids.h"
#include "groups/memory.h"

enum {
    PAGE_ENTRIES_MAX = 16,
    BUCKETS_MAX = 1 << 20,
};

struct offset_extra {
    int64_t expire_ms;
    uint32_t metadata_size;
    char metadata[];
};

struct offset_page {
    int32_t number;
    uint16_t count; /* Above 0. */
    uint16_t capacity;
    struct offset_entry entries[]; /* By partition. */
};

static size_t extra_size(size_t metadata_size)
{
    return offsetof(struct offset_extra, metadata) + metadata_size;
}

static size_t page_size(uint32_t capacity)
{
    return sizeof(struct offset_page) + capacity * sizeof(struct offset_entry);
}

static size_t topic_size(size_t name_size)
{
    return sizeof(struct offset_topic) + name_size;
}

/* ---- memory ---- */

static void *take(struct offset_table *t, size_t size)
{
    void *memory = calloc(1, size);
    if (memory != NULL) {
        group_memory_take(t->memory, size);
    }
    return memory;
}

/* memory may be NULL. */
static void give(struct offset_table *t, void *memory, size_t size)
{
    if (memory != NULL) {
        group_memory_give(t->memory, size);
        free(memory);
    }
}

static void give_extra(struct offset_table *t, struct offset_extra *extra)
{
    if (extra != NULL) {
        give(t, extra, extra_size(extra->metadata_size));
    }
}

/* ---- entries ---- */

struct slice offset_entry_metadata(const struct offset_entry *e)
{
    return e->extra == NULL ? slice_of("", 0)
                            : slice_of(e->extra->metadata, e->extra->metadata_size);
}

int64_t offset_entry_expire_ms(const struct offset_entry *e)
{
    return e->extra == NULL ? OFFSET_NEVER_EXPIRES : e->extra->expire_ms;
}

static bool needs_extra(const struct offset_value *v)
{
    return v->metadata.size > 0 || v->expire_ms != OFFSET_NEVER_EXPIRES;
}

static struct offset_extra *new_extra(struct offset_table *t, const struct offset_value *v)
{
    struct offset_extra *extra = take(t, extra_size(v->metadata.size));
    if (extra != NULL) {
        extra->expire_ms = v->expire_ms;
        extra->metadata_size = (uint32_t)v->metadata.size;
        if (v->metadata.size > 0) {
            memcpy(extra->metadata, v->metadata.data, v->metadata.size);
        }
    }
    return extra;
}

/* ---- pages ---- */

/* Index of the first page whose number is not below. */
static uint32_t page_index(const struct offset_topic *t, int32_t number)
{
    uint32_t low = 0;
    uint32_t high = t->pages_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (t->pages[middle]->number < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Index of the first entry whose partition is not below. */
static uint32_t entry_index(const struct offset_page *page, int32_t partition)
{
    uint32_t i = 0;
    while (i < page->count && page->entries[i].partition < partition) {
        i++;
    }
    return i;
}

/* NULL if there is none of that number at the index. */
static struct offset_page *page_at(const struct offset_topic *t, uint32_t index, int32_t number)
{
    const bool is_there = index < t->pages_count && t->pages[index]->number == number;
    return is_there ? t->pages[index] : NULL;
}

static int32_t page_number(int32_t partition)
{
    return partition / PAGE_ENTRIES_MAX;
}

static struct offset_entry *find(const struct offset_topic *t, int32_t partition)
{
    const int32_t number = page_number(partition);
    struct offset_page *page = page_at(t, page_index(t, number), number);
    if (page == NULL) {
        return NULL;
    }
    const uint32_t i = entry_index(page, partition);
    const bool is_there = i < page->count && page->entries[i].partition == partition;
    return is_there ? &page->entries[i] : NULL;
}

const struct offset_entry *offset_topic_find(const struct offset_topic *t, int32_t partition)
{
    return find(t, partition);
}

const struct offset_entry *offset_topic_last(const struct offset_topic *t)
{
    const struct offset_page *page = t->pages[t->pages_count - 1];
    return &page->entries[page->count - 1];
}

static bool grow_pages(struct offset_table *t, struct offset_topic *topic)
{
    const uint32_t capacity = topic->pages_capacity == 0 ? 1 : topic->pages_capacity * 2;
    struct offset_page **pages = take(t, capacity * sizeof(struct offset_page *));
    if (pages == NULL) {
        return false;
    }
    if (topic->pages_count > 0) {
        memcpy(pages, topic->pages, topic->pages_count * sizeof(struct offset_page *));
    }
    give(t, topic->pages, topic->pages_capacity * sizeof(struct offset_page *));
    topic->pages = pages;
    topic->pages_capacity = capacity;
    return true;
}

static struct offset_page *
insert_page(struct offset_table *t, struct offset_topic *topic, uint32_t index, int32_t number)
{
    if (topic->pages_count == topic->pages_capacity && !grow_pages(t, topic)) {
        return NULL;
    }
    struct offset_page *page = take(t, page_size(1));
    if (page == NULL) {
        return NULL;
    }
    page->number = number;
    page->capacity = 1;
    struct offset_page **at = &topic->pages[index];
    memmove(at + 1, at, (topic->pages_count - index) * sizeof(struct offset_page *));
    *at = page;
    topic->pages_count++;
    return page;
}

/* Where a new entry may go in: a page that is there has another one then. */
static struct offset_page *
page_with_room(struct offset_table *t, struct offset_topic *topic, int32_t number)
{
    const uint32_t index = page_index(topic, number);
    struct offset_page *page = page_at(topic, index, number);
    if (page == NULL) {
        return insert_page(t, topic, index, number);
    }
    if (page->count < page->capacity) {
        return page;
    }
    const uint16_t capacity = page->capacity * 2;
    assert_cmp(capacity, <=, PAGE_ENTRIES_MAX);
    struct offset_page *bigger = take(t, page_size(capacity));
    if (bigger == NULL) {
        return NULL;
    }
    memcpy(bigger, page, page_size(page->count));
    bigger->capacity = capacity;
    topic->pages[index] = bigger;
    give(t, page, page_size(page->capacity));
    return bigger;
}

static struct offset_entry *
insert_entry(struct offset_table *t, struct offset_topic *topic, int32_t partition)
{
    struct offset_page *page = page_with_room(t, topic, page_number(partition));
    if (page == NULL) {
        return NULL;
    }
    const uint32_t i = entry_index(page, partition);
    struct offset_entry *at = &page->entries[i];
    memmove(at + 1, at, (page->count - i) * sizeof(*at));
    *at = (struct offset_entry){.partition = partition};
    page->count++;
    topic->entries_count++;
    t->entries_count++;
    return at;
}

static void remove_page(struct offset_table *t, struct offset_topic *topic, uint32_t index)
{
    struct offset_page **at = &topic->pages[index];
    give(t, *at, page_size((*at)->capacity));
    topic->pages_count--;
    memmove(at, at + 1, (topic->pages_count - index) * sizeof(struct offset_page *));
}

/* ---- topics ---- */

static struct offset_topic **bucket_of(const struct offset_table *t, uint64_t hash)
{
    return &t->buckets[hash & (t->buckets_count - 1)];
}

static struct offset_topic *find_topic(const struct offset_table *t, struct slice name)
{
    if (t->buckets_count == 0) {
        return NULL;
    }
    const uint64_t hash = hash_bytes(t->hash_seed, name.data, name.size);
    struct offset_topic *topic = *bucket_of(t, hash);
    while (topic != NULL && (topic->hash != hash || !slice_equal(offset_topic_name(topic), name))) {
        topic = topic->next;
    }
    return topic;
}

const struct offset_topic *offset_table_topic(const struct offset_table *t, struct slice name)
{
    return find_topic(t, name);
}

static void link_topic(struct offset_table *t, struct offset_topic *topic)
{
    struct offset_topic **bucket = bucket_of(t, topic->hash);
    topic->next = *bucket;
    *bucket = topic;
}

/* False without memory: longer chains, unless there are none at all. */
static bool grow_buckets(struct offset_table *t)
{
    const uint32_t count = t->buckets_count == 0 ? 1 : t->buckets_count * 2;
    struct offset_topic **old = t->buckets;
    struct offset_topic **buckets = take(t, count * sizeof(struct offset_topic *));
    if (buckets == NULL) {
        return false;
    }
    const uint32_t old_count = t->buckets_count;
    t->buckets = buckets;
    t->buckets_count = count;
    for (uint32_t i = 0; i < old_count; i++) {
        while (old[i] != NULL) {
            struct offset_topic *topic = old[i];
            old[i] = topic->next;
            link_topic(t, topic);
        }
    }
    give(t, old, old_count * sizeof(struct offset_topic *));
    return true;
}

static struct offset_topic *get_topic(struct offset_table *t, struct slice name)
{
    struct offset_topic *topic = find_topic(t, name);
    if (topic != NULL) {
        return topic;
    }
    if (t->topics_count == t->buckets_count && t->buckets_count < BUCKETS_MAX) {
        (void)grow_buckets(t);
    }
    topic = t->buckets_count == 0 ? NULL : take(t, topic_size(name.size));
    if (topic == NULL) {
        return NULL;
    }
    topic->hash = hash_bytes(t->hash_seed, name.data, name.size);
    topic->name_size = (uint32_t)name.size;
    if (name.size > 0) {
        memcpy(topic->name, name.data, name.size);
    }
    link_topic(t, topic);
    t->topics_count++;
    return topic;
}

static void drop_topic(struct offset_table *t, struct offset_topic *topic)
{
    assert_cmp(topic->entries_count, ==, 0);
    struct offset_topic **at = bucket_of(t, topic->hash);
    while (*at != topic) {
        at = &(*at)->next;
    }
    *at = topic->next;
    t->topics_count--;
    give(t, topic->pages, topic->pages_capacity * sizeof(struct offset_page *));
    give(t, topic, topic_size(topic->name_size));
}

/* ---- the table ---- */

void offset_table_init(struct offset_table *t, struct group_memory *memory, uint64_t hash_seed)
{
    *t = (struct offset_table){.memory = memory, .hash_seed = hash_seed};
}

static void drop_entries(struct offset_table *t, struct offset_topic *topic)
{
    while (topic->pages_count > 0) {
        const uint32_t last = topic->pages_count - 1;
        struct offset_page *page = topic->pages[last];
        for (uint32_t i = 0; i < page->count; i++) {
            give_extra(t, page->entries[i].extra);
        }
        topic->entries_count -= page->count;
        t->entries_count -= page->count;
        remove_page(t, topic, last);
    }
}

void offset_table_done(struct offset_table *t)
{
    for (uint32_t i = 0; i < t->buckets_count; i++) {
        while (t->buckets[i] != NULL) {
            struct offset_topic *topic = t->buckets[i];
            drop_entries(t, topic);
            drop_topic(t, topic);
        }
    }
    assert_cmp(t->entries_count, ==, 0);
    assert_cmp(t->topics_count, ==, 0);
    give(t, t->buckets, t->buckets_count * sizeof(struct offset_topic *));
    t->buckets = NULL;
    t->buckets_count = 0;
}

static void set_topic_id(struct offset_topic *topic, const struct uuid *id)
{
    if (topic->entries_count == 1) {
        topic->id = *id;
        topic->is_mixed = false;
    } else if (!uuid_equal(&topic->id, id)) {
        topic->is_mixed = true;
    }
}

enum err offset_table_put(struct offset_table *t, struct slice name, const struct offset_value *v)
{
    assert_cmp(v->partition, >=, 0);
    struct offset_extra *extra = NULL;
    if (needs_extra(v) && (extra = new_extra(t, v)) == NULL) {
        return ERR_BUSY;
    }
    struct offset_topic *topic = get_topic(t, name);
    struct offset_entry *e = topic == NULL ? NULL : find(topic, v->partition);
    if (topic != NULL && e == NULL) {
        e = insert_entry(t, topic, v->partition);
    }
    if (e == NULL) {
        if (topic != NULL && topic->entries_count == 0) {
            drop_topic(t, topic);
        }
        give_extra(t, extra);
        return ERR_BUSY;
    }
    give_extra(t, e->extra);
    *e = (struct offset_entry){
        .offset = v->offset,
        .commit_ms = v->commit_ms,
        .extra = extra,
        .topic_id = v->topic_id,
        .partition = v->partition,
        .leader_epoch = v->leader_epoch,
    };
    set_topic_id(topic, &v->topic_id);
    return ERR_OK;
}

uint64_t
offset_table_growth(const struct offset_table *t, struct slice name, const struct offset_value *v)
{
    const uint64_t extra = needs_extra(v) ? extra_size(v->metadata.size) : 0;
    const struct offset_topic *topic = t == NULL ? NULL : find_topic(t, name);
    const struct offset_entry *e = topic == NULL ? NULL : find(topic, v->partition);
    if (e != NULL) {
        const uint64_t old = e->extra == NULL ? 0 : extra_size(e->extra->metadata_size);
        return extra > old ? extra - old : 0;
    }
    /* The tables of pages and of topics may double. */
    const uint64_t entry = page_size(1) + 2 * sizeof(struct offset_page *);
    return extra + entry +
           (topic == NULL ? topic_size(name.size) + 2 * sizeof(struct offset_topic *) : 0);
}

bool offset_table_remove(struct offset_table *t, struct slice name, int32_t partition)
{
    struct offset_topic *topic = find_topic(t, name);
    struct offset_entry *e = topic == NULL ? NULL : find(topic, partition);
    if (e == NULL) {
        return false;
    }
    const uint32_t index = page_index(topic, page_number(partition));
    struct offset_page *page = topic->pages[index];
    const uint32_t i = (uint32_t)(e - page->entries);
    give_extra(t, e->extra);
    page->count--;
    memmove(e, e + 1, (page->count - i) * sizeof(*e));
    topic->entries_count--;
    t->entries_count--;
    if (page->count == 0) {
        remove_page(t, topic, index);
    }
    if (topic->entries_count == 0) {
        drop_topic(t, topic);
    }
    return true;
}

/* ---- walks ---- */

bool offset_table_for_each_topic(const struct offset_table *t,
                                 offset_topic_visit *visit,
                                 void *context)
{
    for (uint32_t i = 0; i < t->buckets_count; i++) {
        for (const struct offset_topic *topic = t->buckets[i]; topic != NULL; topic = topic->next) {
            if (!visit(context, topic)) {
                return false;
            }
        }
    }
    return true;
}

bool offset_topic_for_each(const struct offset_topic *t, offset_entry_visit *visit, void *context)
{
    for (uint32_t i = 0; i < t->pages_count; i++) {
        const struct offset_page *page = t->pages[i];
        for (uint32_t j = 0; j < page->count; j++) {
            if (!visit(context, t, &page->entries[j])) {
                return false;
            }
        }
    }
    return true;
}

static bool add_to_digest(void *context, const struct offset_topic *t, const struct offset_entry *e)
{
    uint64_t *digest = context;
    const struct slice metadata = offset_entry_metadata(e);
    const int64_t numbers[] = {e->partition,
                               e->offset,
                               e->leader_epoch,
                               e->commit_ms,
                               offset_entry_expire_ms(e),
                               (int64_t)metadata.size};
    uint64_t hash = hash_bytes(0, t->name, t->name_size);
    hash = hash_bytes(hash, numbers, sizeof(numbers));
    hash = hash_bytes(hash, e->topic_id.bytes, sizeof(e->topic_id.bytes));
    *digest += hash_bytes(hash, metadata.data, metadata.size);
    return true;
}

static bool add_topic_to_digest(void *context, const struct offset_topic *t)
{
    return offset_topic_for_each(t, add_to_digest, context);
}

uint64_t offset_table_digest(const struct offset_table *t)
{
    uint64_t digest = t->entries_count;
    (void)offset_table_for_each_topic(t, add_topic_to_digest, &digest);
    return digest;
}

/* ---- check ---- */

static void check_page(const struct offset_topic *t, const struct offset_page *page)
{
    assert_cmp(page->count, >, 0);
    assert_cmp(page->count, <=, page->capacity);
    assert_cmp(page->capacity, <=, PAGE_ENTRIES_MAX);
    int32_t previous = -1;
    for (uint32_t i = 0; i < page->count; i++) {
        const struct offset_entry *e = &page->entries[i];
        assert_cmp(e->partition, >, previous);
        assert_cmp(page_number(e->partition), ==, page->number);
        assert(t->is_mixed || uuid_equal(&e->topic_id, &t->id));
        previous = e->partition;
    }
}

static bool check_topic(void *context, const struct offset_topic *t)
{
    uint64_t *left = context;
    uint32_t count = 0;
    for (uint32_t i = 0; i < t->pages_count; i++) {
        check_page(t, t->pages[i]);
        assert(i == 0 || t->pages[i - 1]->number < t->pages[i]->number);
        count += t->pages[i]->count;
    }
    assert_cmp(count, ==, t->entries_count);
    assert_cmp(count, >, 0);
    *left -= count;
    return true;
}

void offset_table_check(const struct offset_table *t)
{
    uint64_t left = t->entries_count;
    (void)offset_table_for_each_topic(t, check_topic, &left);
    assert_cmp(left, ==, 0);
}
