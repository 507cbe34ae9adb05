/* Several file systems on one simulated machine: who is on which, and what is particular to each.
 */
#include <errno.h>
#include <string.h>

#include "core/assert.h"
#include "core/disk_sim_priv.h"
#include "core/ids.h"

void volumes_init(struct disk_sim *d)
{
    for (size_t i = 0; i < VOLUMES_MAX; i++) {
        d->volumes[i] = (struct volume){
            .device_id = i + 1,
            .capacity_size = d->options.capacity_size,
        };
    }
    d->volumes_count = 1;
}

static struct volume *find_or_add(struct disk_sim *d, const char *name)
{
    const uint64_t hash = hash_bytes(1, name, strlen(name));
    size_t i = 1;
    while (i < d->volumes_count && d->volumes[i].name_hash != hash) {
        i++;
    }
    if (i == d->volumes_count) {
        assert(d->volumes_count < VOLUMES_MAX);
        d->volumes_count++;
        d->volumes[i].name_hash = hash;
    }
    return &d->volumes[i];
}

void volume_place(struct disk_sim *d, const struct node *dir, const char *name, struct node *n)
{
    const bool is_mounted = d->options.are_roots_volumes && dir == d->root && n->kind == NODE_DIR;
    n->volume = is_mounted ? find_or_add(d, name) : dir->volume;
    if (n->now != NULL) {
        n->now->volume = n->volume;
    }
}

/* By its first component: only the root holds volumes. */
struct volume *volume_of_path(struct disk_sim *d, const char *path)
{
    char name[256];
    path += strspn(path, "/");
    const size_t size = strcspn(path, "/");
    if (size >= sizeof(name)) {
        return d->root->volume;
    }
    memcpy(name, path, size);
    name[size] = '\0';
    const struct node *n = names_find(d->root, name);
    return n == NULL ? d->root->volume : n->volume;
}

bool volume_has_room(const struct volume *v)
{
    return v->capacity_size == 0 || (v->allocated_count + 1) * BLOCK_SIZE <= v->capacity_size;
}

uint64_t volume_used_size(const struct volume *v)
{
    return v->allocated_count * BLOCK_SIZE;
}

void disk_sim_fs_info(struct disk_sim *d, const char *path, struct io_fs_info *ret_info)
{
    const struct volume *v = volume_of_path(d, path);
    const uint64_t size = v->capacity_size != 0 ? v->capacity_size : (uint64_t)1 << 40;
    const uint64_t used = volume_used_size(v);
    *ret_info = (struct io_fs_info){
        .type = "sim",
        .is_direct_capable = d->options.is_direct_capable,
        .is_flush_shared = d->options.is_flush_shared,
        .device_id = v->device_id,
        .size = size,
        .available = used < size ? size - used : 0,
    };
}

void disk_sim_set_capacity(struct disk_sim *d, uint64_t capacity_size)
{
    d->options.capacity_size = capacity_size;
    for (size_t i = 0; i < VOLUMES_MAX; i++) {
        d->volumes[i].capacity_size = capacity_size;
    }
}

void disk_sim_set_capacity_at(struct disk_sim *d, const char *path, uint64_t capacity_size)
{
    volume_of_path(d, path)->capacity_size = capacity_size;
}

uint64_t disk_sim_used_size(const struct disk_sim *d)
{
    uint64_t size = 0;
    for (size_t i = 0; i < d->volumes_count; i++) {
        size += volume_used_size(&d->volumes[i]);
    }
    return size;
}

uint64_t disk_sim_used_size_at(struct disk_sim *d, const char *path)
{
    return volume_used_size(volume_of_path(d, path));
}

void disk_sim_set_broken(struct disk_sim *d, const char *path, bool is_broken)
{
    volume_of_path(d, path)->is_broken = is_broken;
}
