/* Inside of the simulated disk: nodes, their contents and names. See disk_sim.h for the rules.
 *
 * Every change takes the next number of one sequence when it completes; a sync covers what has a
 * number up to the one that was current when the sync started.
 */
#pragma once

#include "core/disk_sim.h"
#include "core/list.h"

enum {
    BLOCK_SIZE = 4096,
    GHOSTS_MAX = 8,
    VOLUMES_MAX = 8,
};

struct content;

/* A file system. */
struct volume {
    uint64_t device_id;
    uint64_t name_hash;       /* Of the directory: one that is made again is on it again. */
    uint64_t capacity_size;   /* 0 = no limit. */
    uint64_t allocated_count; /* Blocks. */
    bool is_broken;           /* Everything fails. */
};

/* What one completed write left in one block, as long as it is not durable. */
struct version {
    struct list content_link; /* content.unsynced, by sequence. */
    struct list disk_link;    /* disk_sim.unsynced, by sequence. */
    struct version *older;    /* Of the same block. */
    struct content *content;
    uint64_t block;
    uint64_t sequence;
    bool is_direct;
    bool is_abandoned; /* By a failed sync. */
    uint8_t *data;     /* NULL = zeros. */
};

struct block {
    uint8_t *durable;       /* NULL = zeros. */
    uint8_t *ancient;       /* What was durable before, and no zeros; NULL = never. */
    struct version *newest; /* NULL = as durable. */
    uint64_t allocated;     /* Sequence of the write that allocated it; 0 = a hole. */
    bool is_extent_durable;
    uint32_t in_flight_count; /* Direct writes. */
};

/* The bytes of a file between two truncations. */
struct content {
    struct disk_sim *disk;
    struct volume *volume;
    struct block *blocks;
    size_t blocks_count;
    size_t blocks_capacity;
    uint64_t size;
    uint64_t durable_size;
    uint64_t allocated_count; /* Blocks that are no holes. */
    uint32_t in_flight_count; /* Writes. */
    struct list unsynced;     /* struct version */
};

enum node_kind {
    NODE_FILE,
    NODE_DIR,
    NODE_LINK,
};

struct node;

struct dir_entry {
    uint64_t hash;
    char *name;
    struct node *current; /* Either may be NULL, not both. */
    struct node *durable;
};

struct node {
    struct list link; /* disk_sim.nodes, in order of creation; or disk_sim.garbage. */
    enum node_kind kind;
    struct volume *volume; /* From its first name on. */
    uint32_t refs_count;   /* Entries, pending name changes, descriptors, ops. */
    bool is_locked;
    struct content *now;       /* NODE_FILE */
    struct content *before;    /* NODE_FILE: before a truncation that is not durable; or NULL. */
    uint64_t truncated;        /* Sequence of that truncation. */
    struct dir_entry *entries; /* NODE_DIR */
    size_t entries_count;
    size_t entries_capacity;
    char *target; /* NODE_LINK */
};

/* A change of names that no sync covered yet. from_dir NULL: a new name; to_dir NULL: removed. */
struct name_change {
    struct list link; /* disk_sim.name_changes, by sequence. */
    uint64_t sequence;
    struct node *node;
    struct node *from_dir;
    char *from_name;
    struct node *to_dir;
    char *to_name;
};

/* The blocks of a deleted file: where a later write is torn, they may shine through. */
struct ghost {
    uint8_t **blocks; /* NULL = zeros. */
    size_t blocks_count;
};

struct open_file {
    struct node *node; /* NULL = free slot. */
    uint32_t open_flags;
};

struct disk_sim {
    struct disk_sim_options options;
    uint64_t sequence; /* Of the last change. */
    struct node *root;
    struct list nodes;
    struct list garbage;      /* Nodes without references, freed at the end of a call. */
    struct list unsynced;     /* struct version of all contents. */
    struct list name_changes; /* struct name_change */
    struct list in_flight;    /* struct disk_sim_op */
    uint32_t in_flight_count;
    struct volume volumes[VOLUMES_MAX]; /* The first one has the root. */
    size_t volumes_count;
    struct open_file *files;
    size_t files_count;
    uint8_t *spare; /* Free blocks, linked through their first bytes. */
    struct ghost ghosts[GHOSTS_MAX];
    size_t ghosts_next; /* The oldest, to be replaced. */
};

/* malloc that cannot fail: a simulator without memory has nothing left to simulate. Zeroed. */
void *disk_sim_alloc(size_t size);
/* realloc of an array that grew from count elements; the new part is zeroed. */
void *disk_sim_grow(void *array, size_t count, size_t count_new, size_t element_size);

uint8_t *disk_sim_block_alloc(struct disk_sim *d);
/* Accepts NULL. */
void disk_sim_block_free(struct disk_sim *d, uint8_t *data);

/* Contents: disk_sim_file.c. */
struct content *content_new(struct disk_sim *d);
void content_free(struct content *c);
void ghosts_free(struct disk_sim *d);
/* Makes room so that the blocks of [pos, pos + size) exist in the table. */
void content_reserve(struct content *c, uint64_t pos, uint64_t size);
/* Bytes written: size, fewer, or -ENOSPC. mask: which sectors of the write take effect, NULL = all;
 * bit i is sector i from pos, so pos must then be a multiple of the sector. */
struct write_what {
    const uint8_t *bytes;
    uint64_t pos;
    uint64_t size;
    bool is_direct;
    const uint8_t *mask; /* One byte per sector; NULL = all. */
};
int64_t content_write(struct content *c, const struct write_what *w);
void content_read(const struct content *c, uint64_t pos, uint8_t *dst, size_t size);
/* A sync of this content that started at sequence, when its size was size. */
void content_sync(struct content *c, uint64_t sequence, uint64_t size);
void content_abandon(struct content *c, uint64_t sequence);
/* A flush of the device of v that started at sequence. */
void disk_sim_flush_device(struct disk_sim *d, const struct volume *v, uint64_t sequence);
void content_lose_power(struct content *c, struct rand *r, const struct disk_sim_crash *how);
void node_truncate(struct disk_sim *d, struct node *n);
void node_sync(struct node *n, uint64_t sequence, uint64_t size);
void node_lose_power(struct node *n, struct rand *r, const struct disk_sim_crash *how);

/* Names: disk_sim_names.c. */
struct node *node_new(struct disk_sim *d, enum node_kind kind);
void node_ref(struct node *n);
void node_unref(struct disk_sim *d, struct node *n);
/* Frees what nothing refers to any more. */
void disk_sim_collect(struct disk_sim *d);

/* The directory of path's last component, and that component (a view into path). 0 or -errno. */
int names_resolve_parent(struct disk_sim *d,
                         const char *path,
                         struct node **ret_dir,
                         const char **ret_name);
/* The node of path. 0 or -errno. */
int names_resolve(struct disk_sim *d, const char *path, struct node **ret_node);
/* NULL if there is none. */
struct node *names_find(const struct node *dir, const char *name);
void names_add(struct disk_sim *d, struct node *dir, const char *name, struct node *n);
int names_unlink(struct disk_sim *d, const char *path, bool is_directory);
int names_rename(struct disk_sim *d, const char *path, const char *new_path);
void names_sync(struct disk_sim *d, struct node *dir, uint64_t sequence);
void names_lose_power(struct disk_sim *d, struct rand *r, const struct disk_sim_crash *how);
void names_free(struct disk_sim *d);

/* Volumes: disk_sim_volumes.c. */
void volumes_init(struct disk_sim *d);
/* n gets its first name, in dir. */
void volume_place(struct disk_sim *d, const struct node *dir, const char *name, struct node *n);
struct volume *volume_of_path(struct disk_sim *d, const char *path);
bool volume_has_room(const struct volume *v);
uint64_t volume_used_size(const struct volume *v);

static inline bool disk_sim_chance(struct rand *r, uint32_t percent)
{
    return rand_below(r, 100) < percent;
}
