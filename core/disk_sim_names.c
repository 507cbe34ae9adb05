/* Directories of the simulated disk: names as they are seen, and as a power loss leaves them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/disk_sim_priv.h"
#include "core/ids.h"

enum {
    NAME_HASH_SEED = 1, /* Names here are the simulator's own: no flooding to fear. */
};

struct node *node_new(struct disk_sim *d, enum node_kind kind)
{
    struct node *n = disk_sim_alloc(sizeof(*n));
    n->kind = kind;
    if (kind == NODE_FILE) {
        n->now = content_new(d);
    }
    list_push_back(&d->nodes, &n->link);
    return n;
}

void node_ref(struct node *n)
{
    n->refs_count++;
}

void node_unref(struct disk_sim *d, struct node *n)
{
    assert(n->refs_count > 0);
    n->refs_count--;
    if (n->refs_count == 0) {
        list_remove(&n->link);
        list_push_back(&d->garbage, &n->link);
    }
}

void disk_sim_collect(struct disk_sim *d)
{
    struct list *link;
    while ((link = list_pop_front(&d->garbage)) != NULL) {
        struct node *n = container_of(link, struct node, link);
        for (size_t i = 0; i < n->entries_count; i++) {
            struct dir_entry *e = &n->entries[i];
            if (e->current != NULL) {
                node_unref(d, e->current);
            }
            if (e->durable != NULL) {
                node_unref(d, e->durable);
            }
            free(e->name);
        }
        if (n->now != NULL) {
            n->volume->allocated_count -= n->now->allocated_count;
        }
        content_free(n->now);
        content_free(n->before);
        free(n->entries);
        free(n->target);
        free(n);
    }
}

static struct dir_entry *entry_find(const struct node *dir, const char *name)
{
    uint64_t hash = hash_bytes(NAME_HASH_SEED, name, strlen(name));
    for (size_t i = 0; i < dir->entries_count; i++) {
        struct dir_entry *e = &dir->entries[i];
        if (e->hash == hash && strcmp(e->name, name) == 0) {
            return e;
        }
    }
    return NULL;
}

static struct dir_entry *entry_find_or_add(struct node *dir, const char *name)
{
    struct dir_entry *e = entry_find(dir, name);
    if (e != NULL) {
        return e;
    }
    if (dir->entries_count == dir->entries_capacity) {
        size_t capacity = dir->entries_capacity == 0 ? 8 : dir->entries_capacity * 2;
        dir->entries = disk_sim_grow(dir->entries, dir->entries_capacity, capacity, sizeof(*e));
        dir->entries_capacity = capacity;
    }
    e = &dir->entries[dir->entries_count++];
    *e = (struct dir_entry){
        .hash = hash_bytes(NAME_HASH_SEED, name, strlen(name)),
        .name = strdup(name),
    };
    assert(e->name != NULL);
    return e;
}

/* n may be NULL. */
static void slot_set(struct disk_sim *d, struct node **slot, struct node *n)
{
    if (n != NULL) {
        node_ref(n);
    }
    if (*slot != NULL) {
        node_unref(d, *slot);
    }
    *slot = n;
}

static void entry_drop_if_empty(struct node *dir, struct dir_entry *e)
{
    if (e->current == NULL && e->durable == NULL) {
        free(e->name);
        *e = dir->entries[--dir->entries_count];
    }
}

struct node *names_find(const struct node *dir, const char *name)
{
    const struct dir_entry *e = entry_find(dir, name);
    return e != NULL ? e->current : NULL;
}

/* Links are never followed: nothing but people uses them. */
static int step(const struct node *dir, const char *name, size_t size, struct node **ret_node)
{
    char buffer[256];
    if (dir->kind != NODE_DIR) {
        return dir->kind == NODE_LINK ? -ELOOP : -ENOTDIR;
    }
    if (size >= sizeof(buffer)) {
        return -ENAMETOOLONG;
    }
    memcpy(buffer, name, size);
    buffer[size] = '\0';
    assert(strcmp(buffer, "..") != 0); /* No path of ours has one. */
    struct node *n = names_find(dir, buffer);
    if (n == NULL) {
        return -ENOENT;
    }
    *ret_node = n;
    return 0;
}

int names_resolve_parent(struct disk_sim *d,
                         const char *path,
                         struct node **ret_dir,
                         const char **ret_name)
{
    struct node *dir = d->root;
    for (;;) {
        path += strspn(path, "/");
        size_t size = strcspn(path, "/");
        if (path[size] == '\0') {
            break;
        }
        bool is_self = size == 1 && path[0] == '.';
        int e = is_self ? 0 : step(dir, path, size, &dir);
        if (e != 0) {
            return e;
        }
        path += size;
    }
    if (dir->kind != NODE_DIR) {
        return dir->kind == NODE_LINK ? -ELOOP : -ENOTDIR;
    }
    *ret_dir = dir;
    *ret_name = path;
    return 0;
}

int names_resolve(struct disk_sim *d, const char *path, struct node **ret_node)
{
    struct node *dir;
    const char *name;
    int e = names_resolve_parent(d, path, &dir, &name);
    if (e != 0) {
        return e;
    }
    if (name[0] == '\0' || strcmp(name, ".") == 0) {
        *ret_node = dir;
        return 0;
    }
    return step(dir, name, strlen(name), ret_node);
}

static struct name_change *change_new(struct disk_sim *d, struct node *n)
{
    struct name_change *c = disk_sim_alloc(sizeof(*c));
    c->sequence = ++d->sequence;
    c->node = n;
    node_ref(n);
    list_push_back(&d->name_changes, &c->link);
    return c;
}

static void change_set_from(struct name_change *c, struct node *dir, const char *name)
{
    c->from_dir = dir;
    node_ref(dir);
    c->from_name = strdup(name);
    assert(c->from_name != NULL);
}

static void change_set_to(struct name_change *c, struct node *dir, const char *name)
{
    c->to_dir = dir;
    node_ref(dir);
    c->to_name = strdup(name);
    assert(c->to_name != NULL);
}

static void change_free(struct disk_sim *d, struct name_change *c)
{
    list_remove(&c->link);
    node_unref(d, c->node);
    if (c->from_dir != NULL) {
        node_unref(d, c->from_dir);
    }
    if (c->to_dir != NULL) {
        node_unref(d, c->to_dir);
    }
    free(c->from_name);
    free(c->to_name);
    free(c);
}

/* Both sides at once: a rename is never half done. */
static void change_make_durable(struct disk_sim *d, struct name_change *c)
{
    if (c->from_dir != NULL) {
        struct dir_entry *e = entry_find(c->from_dir, c->from_name);
        /* The name may mean another node by now, if a change before this one did not survive. */
        if (e != NULL && e->durable == c->node) {
            slot_set(d, &e->durable, NULL);
            entry_drop_if_empty(c->from_dir, e);
        }
    }
    if (c->to_dir != NULL) {
        struct dir_entry *e = entry_find_or_add(c->to_dir, c->to_name);
        slot_set(d, &e->durable, c->node);
    }
}

void names_add(struct disk_sim *d, struct node *dir, const char *name, struct node *n)
{
    struct dir_entry *e = entry_find_or_add(dir, name);
    assert(e->current == NULL);
    volume_place(d, dir, name, n);
    slot_set(d, &e->current, n);
    change_set_to(change_new(d, n), dir, name);
}

static bool dir_is_empty(const struct node *dir)
{
    for (size_t i = 0; i < dir->entries_count; i++) {
        if (dir->entries[i].current != NULL) {
            return false;
        }
    }
    return true;
}

int names_unlink(struct disk_sim *d, const char *path, bool is_directory)
{
    struct node *dir;
    const char *name;
    int e = names_resolve_parent(d, path, &dir, &name);
    if (e != 0) {
        return e;
    }
    struct dir_entry *entry = entry_find(dir, name);
    if (entry == NULL || entry->current == NULL) {
        return -ENOENT;
    }
    struct node *n = entry->current;
    if (is_directory != (n->kind == NODE_DIR)) {
        return is_directory ? -ENOTDIR : -EISDIR;
    }
    if (is_directory && !dir_is_empty(n)) {
        return -ENOTEMPTY;
    }
    change_set_from(change_new(d, n), dir, name);
    slot_set(d, &entry->current, NULL);
    entry_drop_if_empty(dir, entry);
    return 0;
}

static int check_replace(const struct node *n, const struct node *old)
{
    if (old == NULL || old == n) {
        return 0;
    }
    if (old->kind == NODE_DIR) {
        if (n->kind != NODE_DIR) {
            return -EISDIR;
        }
        return dir_is_empty(old) ? 0 : -ENOTEMPTY;
    }
    return n->kind == NODE_DIR ? -ENOTDIR : 0;
}

int names_rename(struct disk_sim *d, const char *path, const char *new_path)
{
    struct node *from_dir;
    struct node *to_dir;
    const char *from_name;
    const char *to_name;
    int e = names_resolve_parent(d, path, &from_dir, &from_name);
    if (e == 0) {
        e = names_resolve_parent(d, new_path, &to_dir, &to_name);
    }
    if (e != 0) {
        return e;
    }
    struct node *n = names_find(from_dir, from_name);
    if (n == NULL || to_name[0] == '\0') {
        return -ENOENT;
    }
    if (from_dir->volume != to_dir->volume) {
        return -EXDEV;
    }
    struct node *old = names_find(to_dir, to_name);
    e = check_replace(n, old);
    if (e != 0 || old == n) {
        return e;
    }
    struct name_change *c = change_new(d, n);
    change_set_from(c, from_dir, from_name);
    change_set_to(c, to_dir, to_name);
    struct dir_entry *to = entry_find_or_add(to_dir, to_name);
    slot_set(d, &to->current, n);
    struct dir_entry *from = entry_find(from_dir, from_name);
    slot_set(d, &from->current, NULL);
    entry_drop_if_empty(from_dir, from);
    return 0;
}

void names_sync(struct disk_sim *d, struct node *dir, uint64_t sequence)
{
    list_for_each_safe (node, &d->name_changes) {
        struct name_change *c = container_of(node, struct name_change, link);
        if (c->sequence > sequence) {
            break;
        }
        if (c->from_dir == dir || c->to_dir == dir) {
            change_make_durable(d, c);
            change_free(d, c);
        }
    }
}

void names_lose_power(struct disk_sim *d, struct rand *r, const struct disk_sim_crash *how)
{
    bool is_lost = false;
    list_for_each_safe (node, &d->name_changes) {
        struct name_change *c = container_of(node, struct name_change, link);
        if (!(how->are_names_ordered && is_lost)) {
            is_lost = !disk_sim_chance(r, how->keep_name);
        }
        if (!is_lost) {
            change_make_durable(d, c);
        }
        change_free(d, c);
    }
    list_for_each (node, &d->nodes) {
        struct node *dir = container_of(node, struct node, link);
        for (size_t i = dir->entries_count; i-- > 0;) {
            struct dir_entry *e = &dir->entries[i];
            if (e->current != e->durable) {
                /* A node that dies here goes to the garbage list, not out of this one's hands. */
                struct node *dead = e->current;
                e->current = e->durable;
                if (e->durable != NULL) {
                    node_ref(e->durable);
                }
                if (dead != NULL) {
                    assert(dead->refs_count > 0);
                    dead->refs_count--;
                }
                entry_drop_if_empty(dir, e);
            }
        }
    }
    list_for_each_safe (node, &d->nodes) {
        struct node *n = container_of(node, struct node, link);
        if (n->refs_count == 0) {
            list_remove(&n->link);
            list_push_back(&d->garbage, &n->link);
        }
    }
    disk_sim_collect(d);
}

void names_free(struct disk_sim *d)
{
    list_for_each_safe (node, &d->name_changes) {
        change_free(d, container_of(node, struct name_change, link));
    }
    node_unref(d, d->root);
    disk_sim_collect(d);
}
