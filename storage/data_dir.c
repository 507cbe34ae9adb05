#include "storage/data_dir.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/shard.h"
#include "storage/store_merge.h"

enum {
    PATH_SIZE_MAX = 4096,
    FORMAT_SIZE_MAX = 4096, /* Of format.json; ours has about 200 bytes. */
};

/* What all steps of an open of one directory share. */
struct opening {
    struct shard *s;
    char *path;
    bool is_locked;
    bool has_siblings;
    int32_t node_id;
    char *why;
    struct data_dir d;
    char name[PATH_SIZE_MAX]; /* The path last made by path_of. */
};

/* One line for the operator: what is wrong, and what to do. */
[[gnu::format(printf, 3, 4)]] static enum err
refuse(struct opening *o, enum err e, const char *format, ...)
{
    assert(e != ERR_OK);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(o->why, DATA_WHY_SIZE, format, arguments);
    va_end(arguments);
    return e;
}

/* Names the reason of an operating error as far as it is known. */
static enum err refuse_op(struct opening *o, const struct io_op *op, const char *what)
{
    const char *reason = op->raw_errno == 0 ? NULL : strerrordesc_np(op->raw_errno);
    return refuse(o,
                  op->result,
                  "cannot %s %s: %s; check the path and its permissions or use another --data-dir",
                  what,
                  op->path == NULL ? o->path : op->path,
                  reason == NULL ? err_name(op->result) : reason);
}

static const char *path_of(struct opening *o, const char *name)
{
    (void)snprintf(o->name, sizeof(o->name), "%s/%s", o->path, name);
    return o->name;
}

static enum err call(struct opening *o, struct io_op *op, const char *what)
{
    enum err e = io_call(&o->s->io, op);
    return e == ERR_OK ? ERR_OK : refuse_op(o, op, what);
}

/* ---- directory ----------------------------------------------------------------------------- */

static enum err sync_parent(struct opening *o)
{
    char parent[PATH_SIZE_MAX];
    (void)snprintf(parent, sizeof(parent), "%s", o->path);
    char *slash = strrchr(parent, '/');
    if (slash == NULL) {
        (void)snprintf(parent, sizeof(parent), ".");
    } else if (slash == parent) {
        slash[1] = 0;
    } else {
        *slash = 0;
    }
    struct io_op op = {.kind = IO_FSYNC_DIR, .path = parent};
    return call(o, &op, "flush");
}

static enum err make_directory(struct opening *o)
{
    struct io_op op = {.kind = IO_MKDIR, .path = o->path};
    enum err e = io_call(&o->s->io, &op);
    if (e == ERR_EXISTS) {
        /* It may be from a start that died before it flushed the name. Where we have no right to do
         * so, somebody else made the directory. */
        if (sync_parent(o) != ERR_OK) {
            o->why[0] = '\0';
        }
        return ERR_OK;
    }
    if (e == ERR_NOT_FOUND) {
        return refuse(
            o, e, "the parent of data directory %s does not exist; create it first", o->path);
    }
    return e == ERR_OK ? sync_parent(o) : refuse_op(o, &op, "create");
}

static enum err lock_directory(struct opening *o)
{
    const char *path = path_of(o, "LOCK");
    enum err e = io_lock(&o->s->io, path, &o->d.lock_handle);
    if (e == ERR_LOCKED) {
        return refuse(o,
                      e,
                      "data directory %s is in use by another process%s; stop that one or use "
                      "another --data-dir",
                      o->path,
                      o->has_siblings ? ", or given twice" : "");
    }
    if (e != ERR_OK) {
        return refuse(o,
                      e,
                      "cannot create and lock %s: %s; check its permissions or use another "
                      "--data-dir",
                      path,
                      err_name(e));
    }
    return ERR_OK;
}

/* LOCK once more, without the lock: the kernel may go on with a flush for some time after a kill
 * -9, and the lock would be held for as long, so that nobody could start. */
static enum err open_quiet_file(struct opening *o)
{
    struct io_op op = {.kind = IO_OPEN, .path = path_of(o, "LOCK"), .open_flags = IO_OPEN_READ};
    const enum err e = call(o, &op, "open");
    o->d.quiet_fd = e == ERR_OK ? op.result_fd : 0;
    return e;
}

static void let_go(struct shard *s, const struct data_dir *d)
{
    if (d->quiet_fd > 0) {
        (void)io_call(&s->io, &(struct io_op){.kind = IO_CLOSE, .fd = d->quiet_fd});
    }
    io_unlock(&s->io, d->lock_handle);
}

static enum err check_file_system(struct opening *o)
{
    enum err e = io_fs_info(&o->s->io, o->path, &o->d.fs);
    if (e != ERR_OK) {
        return refuse(o,
                      e,
                      "cannot examine the file system of data directory %s: %s; use another "
                      "--data-dir",
                      o->path,
                      err_name(e));
    }
    if (!o->d.fs.is_direct_capable) {
        return refuse(o,
                      ERR_UNSUPPORTED,
                      "data directory %s is on %s, which has no direct I/O; use a directory on "
                      "ext4 or XFS (--data-dir)",
                      o->path,
                      o->d.fs.type);
    }
    struct io_fs_info logs;
    if (io_fs_info(&o->s->io, path_of(o, "logs"), &logs) == ERR_OK &&
        logs.device_id != o->d.fs.device_id) {
        o->d.fs.is_flush_shared = false; /* A mount, or a link elsewhere. */
    }
    return ERR_OK;
}

/* ---- format.json --------------------------------------------------------------------------- */

static enum err refuse_damaged(struct opening *o, const char *what)
{
    return refuse(o,
                  ERR_CORRUPT,
                  "%s/format.json %s; restore it from a backup, or use an empty --data-dir",
                  o->path,
                  what);
}

static bool read_uuid(const json_t *object, const char *key, struct uuid *ret_uuid)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL && uuid_parse(text, ret_uuid) && !uuid_is_zero(ret_uuid);
}

static enum err check_format(struct opening *o, const json_t *object)
{
    const json_t *version = json_object_get(object, "version");
    const json_t *node_id = json_object_get(object, "node_id");
    if (!json_is_integer(version) || json_integer_value(version) < 1) {
        return refuse_damaged(o, "has no version");
    }
    if (json_integer_value(version) > DATA_FORMAT_VERSION) {
        return refuse(o,
                      ERR_NEWER_FORMAT,
                      "data directory %s has format %" JSON_INTEGER_FORMAT
                      ", this program knows formats up to %d; start the newer version again",
                      o->path,
                      json_integer_value(version),
                      DATA_FORMAT_VERSION);
    }
    if (!read_uuid(object, "cluster_id", &o->d.cluster_id) ||
        !read_uuid(object, "directory_id", &o->d.directory_id) ||
        !read_uuid(object, "controller_directory_id", &o->d.controller_directory_id) ||
        !json_is_integer(node_id) || json_integer_value(node_id) < 0 ||
        json_integer_value(node_id) > INT32_MAX) {
        return refuse_damaged(o,
                              "lacks cluster_id, directory_id, controller_directory_id or node_id");
    }
    o->d.node_id = (int32_t)json_integer_value(node_id);
    if (o->d.node_id != o->node_id) {
        char cluster[UUID_TEXT_SIZE];
        uuid_format(&o->d.cluster_id, cluster);
        return refuse(o,
                      ERR_FOREIGN,
                      "data directory %s belongs to node %" PRId32
                      " of cluster %s; start with --node-id %" PRId32 " or use another --data-dir",
                      o->path,
                      o->d.node_id,
                      cluster,
                      o->d.node_id);
    }
    return ERR_OK;
}

static enum err read_format(struct opening *o, uint64_t size)
{
    char text[FORMAT_SIZE_MAX];
    if (size > sizeof(text)) {
        return refuse_damaged(o, "is too long");
    }
    struct io_op op = {
        .kind = IO_OPEN, .path = path_of(o, "format.json"), .open_flags = IO_OPEN_READ};
    enum err e = call(o, &op, "open");
    if (e != ERR_OK) {
        return e;
    }
    int fd = op.result_fd;
    op = (struct io_op){.kind = IO_READ, .fd = fd, .path = o->name, .buf = text, .size = size};
    enum err e_read = call(o, &op, "read");
    op = (struct io_op){.kind = IO_CLOSE, .fd = fd, .path = o->name};
    e = call(o, &op, "close");
    if (e_read != ERR_OK || e != ERR_OK) {
        return e_read != ERR_OK ? e_read : e;
    }
    json_error_t error;
    json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    e = json_is_object(object) ? check_format(o, object) : refuse_damaged(o, "is not valid JSON");
    json_decref(object);
    return e;
}

static enum err write_text(struct opening *o, const char *text)
{
    struct io_op op = {
        .kind = IO_OPEN,
        .path = path_of(o, "format.json.new"),
        .open_flags = IO_OPEN_WRITE | IO_OPEN_CREATE | IO_OPEN_TRUNCATE,
    };
    enum err e = call(o, &op, "create");
    if (e != ERR_OK) {
        return e;
    }
    int fd = op.result_fd;
    op = (struct io_op){.kind = IO_WRITE,
                        .fd = fd,
                        .path = o->name,
                        .buf = (void *)(uintptr_t)text,
                        .size = strlen(text)};
    e = call(o, &op, "write");
    if (e == ERR_OK) {
        op = (struct io_op){.kind = IO_FSYNC, .fd = fd, .path = o->name};
        e = call(o, &op, "flush");
    }
    op = (struct io_op){.kind = IO_CLOSE, .fd = fd, .path = o->name};
    enum err e_close = io_call(&o->s->io, &op);
    if (e == ERR_OK && e_close != ERR_OK) {
        e = refuse_op(o, &op, "close");
    }
    return e;
}

/* Complete under another name first: format.json is there with all it says, or not at all. */
static enum err write_format(struct opening *o)
{
    char cluster[UUID_TEXT_SIZE];
    char directory[UUID_TEXT_SIZE];
    char controller[UUID_TEXT_SIZE];
    char text[FORMAT_SIZE_MAX];
    uuid_format(&o->d.cluster_id, cluster);
    uuid_format(&o->d.directory_id, directory);
    uuid_format(&o->d.controller_directory_id, controller);
    (void)snprintf(text,
                   sizeof(text),
                   "{\n  \"version\": %d,\n  \"cluster_id\": \"%s\",\n  \"node_id\": %" PRId32
                   ",\n  \"directory_id\": \"%s\",\n  \"controller_directory_id\": \"%s\"\n}\n",
                   DATA_FORMAT_VERSION,
                   cluster,
                   o->node_id,
                   directory,
                   controller);
    enum err e = write_text(o, text);
    if (e != ERR_OK) {
        return e;
    }
    char path[PATH_SIZE_MAX];
    (void)snprintf(path, sizeof(path), "%s/format.json", o->path);
    struct io_op op = {.kind = IO_RENAME, .path = path_of(o, "format.json.new"), .new_path = path};
    e = call(o, &op, "rename");
    if (e == ERR_OK) {
        op = (struct io_op){.kind = IO_FSYNC_DIR, .path = o->path};
        e = call(o, &op, "flush");
    }
    return e;
}

struct contents {
    bool has_data;    /* Of ours. */
    bool has_foreign; /* Of somebody else. */
};

static void on_name(void *context, const char *name)
{
    struct contents *c = context;
    if (strcmp(name, "LOCK") == 0 || strcmp(name, "format.json.new") == 0 ||
        strcmp(name, "lost+found") == 0) {
        return; /* Also in a directory that was never used. */
    }
    if (strcmp(name, "logs") == 0 || strncmp(name, "shard-", 6) == 0 ||
        strcmp(name, "store.merge") == 0) {
        c->has_data = true;
    } else {
        c->has_foreign = true;
    }
}

/* Without format.json: only an empty directory becomes ours. */
static enum err check_empty(struct opening *o)
{
    struct contents c = {.has_data = false};
    enum err e = io_list_dir(&o->s->io, o->path, &c, on_name);
    if (e != ERR_OK) {
        return refuse(
            o, e, "cannot list data directory %s: %s; check its permissions", o->path, err_name(e));
    }
    if (c.has_data) {
        return refuse_damaged(o, "is missing though there is data");
    }
    if (c.has_foreign) {
        return refuse(o,
                      ERR_FOREIGN,
                      "directory %s is not empty and not a data directory; use an empty one "
                      "(--data-dir)",
                      o->path);
    }
    o->d.is_new = true;
    o->d.node_id = o->node_id;
    o->d.directory_id = rand_uuid(&o->s->rand);
    return ERR_OK;
}

static enum err open_format(struct opening *o)
{
    uint64_t size = 0;
    enum err e = io_file_size(&o->s->io, path_of(o, "format.json"), &size);
    if (e == ERR_OK) {
        e = read_format(o, size);
        if (e != ERR_OK) {
            return e;
        }
        /* Renamed, but perhaps not flushed, by a start that died. */
        struct io_op op = {.kind = IO_FSYNC_DIR, .path = o->path};
        return call(o, &op, "flush");
    }
    if (e == ERR_NOT_FOUND) {
        return check_empty(o);
    }
    return refuse(o, e, "cannot read %s: %s; check its permissions", o->name, err_name(e));
}

static enum err merge_stores(struct opening *o)
{
    char *path = NULL;
    enum err e = store_merge(o->s, o->path, &o->d.directory_id, &path);
    const char *name = path == NULL ? o->path : path;
    if (e == ERR_CORRUPT) {
        e = refuse(o,
                   e,
                   "%s is damaged (the log says where); restore the data directory from a replica "
                   "or a backup",
                   name);
    } else if (e == ERR_NOT_FOUND) {
        e = refuse(o,
                   ERR_CORRUPT,
                   "%s is missing though there are logs; restore the data directory from a backup, "
                   "or use an empty --data-dir",
                   name);
    } else if (e == ERR_FOREIGN) {
        e = refuse(
            o,
            e,
            "%s was made in another data directory and says nothing of the logs in this one; "
            "put this one's own there",
            name);
    } else if (e == ERR_NEWER_FORMAT) {
        e = refuse(o, e, "%s was written by a newer version; start that one again", name);
    } else if (e == ERR_NO_SPACE) {
        e = refuse(o,
                   e,
                   "no space to rearrange %s for another core count; free some (%s/recycle may be "
                   "emptied), or start with as many cores as before",
                   name,
                   o->path);
    } else if (e != ERR_OK) {
        e = refuse(o, e, "cannot read %s: %s; check the disk", name, err_name(e));
    }
    free(path);
    return e;
}

/* ---- one directory ------------------------------------------------------------------------- */

/* Locked, and its format.json read if there is one. */
static enum err prepare(struct opening *o)
{
    for (size_t size = strlen(o->path); size > 1 && o->path[size - 1] == '/'; size--) {
        o->path[size - 1] = 0;
    }
    if (o->path[0] == 0 || strlen(o->path) > PATH_SIZE_MAX - 32) {
        return refuse(o, ERR_INVALID, "the data directory's path is empty or too long; shorten it");
    }
    enum err e = make_directory(o);
    if (e == ERR_OK) {
        e = lock_directory(o);
        o->is_locked = e == ERR_OK;
    }
    if (e == ERR_OK) {
        e = open_quiet_file(o);
    }
    if (e == ERR_OK) {
        e = check_file_system(o);
    }
    return e == ERR_OK ? open_format(o) : e;
}

static void opening_free(struct opening *o)
{
    if (o->is_locked) {
        let_go(o->s, &o->d);
    }
    free(o->path);
}

/* ---- all of them together ------------------------------------------------------------------ */

static enum err check_pair(struct opening *a, const struct opening *b)
{
    if (a->d.is_new || b->d.is_new) {
        return ERR_OK;
    }
    char theirs[UUID_TEXT_SIZE];
    char ours[UUID_TEXT_SIZE];
    uuid_format(&b->d.cluster_id, theirs);
    uuid_format(&a->d.cluster_id, ours);
    if (!uuid_equal(&a->d.cluster_id, &b->d.cluster_id)) {
        return refuse(a,
                      ERR_FOREIGN,
                      "data directory %s belongs to cluster %s, and %s to %s; start with those of "
                      "one of them",
                      a->path,
                      ours,
                      b->path,
                      theirs);
    }
    uuid_format(&a->d.directory_id, ours);
    if (uuid_equal(&a->d.directory_id, &b->d.directory_id)) {
        return refuse(a,
                      ERR_FOREIGN,
                      "data directories %s and %s have the same directory_id %s: one is a copy of "
                      "the other; leave out the copy",
                      a->path,
                      b->path,
                      ours);
    }
    if (!uuid_equal(&a->d.controller_directory_id, &b->d.controller_directory_id)) {
        return refuse(a,
                      ERR_FOREIGN,
                      "data directories %s and %s do not belong together: their format.json name "
                      "different controller_directory_id; start with those of one set",
                      a->path,
                      b->path);
    }
    return ERR_OK;
}

static enum err check_pairs(struct opening *all, uint32_t count)
{
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < count && e == ERR_OK; i++) {
        for (uint32_t j = 0; j < i && e == ERR_OK; j++) {
            e = check_pair(&all[i], &all[j]);
        }
    }
    return e;
}

/* The first that was founded earlier; else the first, with fresh ids. */
static struct opening *find_example(struct opening *all, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!all[i].d.is_new) {
            return &all[i];
        }
    }
    all[0].d.cluster_id = rand_uuid(&all[0].s->rand);
    all[0].d.controller_directory_id = all[0].d.directory_id;
    return &all[0];
}

static bool has_controller(const struct data_dir *d)
{
    return uuid_equal(&d->directory_id, &d->controller_directory_id);
}

/* Who is who: the new ones become members of the set. */
static enum err identify(struct opening *all, uint32_t count)
{
    enum err e = check_pairs(all, count);
    if (e != ERR_OK) {
        return e;
    }
    struct opening *example = find_example(all, count);
    bool is_complete = false;
    for (uint32_t i = 0; i < count; i++) {
        all[i].d.cluster_id = example->d.cluster_id;
        all[i].d.controller_directory_id = example->d.controller_directory_id;
        is_complete |= has_controller(&all[i].d);
    }
    if (!is_complete) {
        char id[UUID_TEXT_SIZE];
        uuid_format(&example->d.controller_directory_id, id);
        return refuse(example,
                      ERR_NOT_FOUND,
                      "the data directory with directory_id %s, which has the controller's log of "
                      "the others, is not given, or not mounted; mount it and add it with "
                      "--data-dir",
                      id);
    }
    return ERR_OK;
}

/* The first one found names all that follow: a crash in between leaves a set that others join. */
static enum err found_new(struct opening *all, uint32_t count)
{
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < count && e == ERR_OK; i++) {
        if (all[i].d.is_new) {
            e = write_format(&all[i]);
        }
    }
    return e;
}

static void give(struct opening *o, struct data_dir *ret_dir)
{
    *ret_dir = o->d;
    ret_dir->path = o->path;
    o->path = NULL;
    o->is_locked = false;
}

static void give_all(struct opening *all, uint32_t count, struct data_dir *ret_dirs)
{
    uint32_t next = 1;
    for (uint32_t i = 0; i < count; i++) {
        give(&all[i], has_controller(&all[i].d) ? &ret_dirs[0] : &ret_dirs[next++]);
    }
}

static enum err
open_all(struct opening *all, const struct data_dirs_open *how, struct data_dir *ret_dirs)
{
    enum err e = ERR_OK;
    for (uint32_t i = 0; i < how->count && e == ERR_OK; i++) {
        e = all[i].path == NULL ? refuse(&all[i], ERR_BUSY, "out of memory") : prepare(&all[i]);
    }
    if (e == ERR_OK) {
        e = identify(all, how->count);
    }
    if (e == ERR_OK) {
        e = found_new(all, how->count);
    }
    for (uint32_t i = 0; i < how->count && e == ERR_OK; i++) {
        e = merge_stores(&all[i]);
    }
    if (e == ERR_OK) {
        give_all(all, how->count, ret_dirs);
    }
    return e;
}

enum err data_dirs_open(struct shard *s,
                        const struct data_dirs_open *how,
                        char why[DATA_WHY_SIZE],
                        struct data_dir *ret_dirs)
{
    assert(how->node_id >= 0);
    assert_cmp(how->count, >, 0);
    struct opening *all = calloc(how->count, sizeof(*all));
    if (all == NULL) {
        (void)snprintf(why, DATA_WHY_SIZE, "out of memory; give the process more");
        return ERR_BUSY;
    }
    for (uint32_t i = 0; i < how->count; i++) {
        all[i] = (struct opening){
            .s = s,
            .path = strdup(how->paths[i]),
            .has_siblings = how->count > 1,
            .node_id = how->node_id,
            .why = why,
        };
    }
    enum err e = open_all(all, how, ret_dirs);
    for (uint32_t i = 0; i < how->count; i++) {
        opening_free(&all[i]);
    }
    free(all);
    return e;
}

void data_dirs_close(struct shard *s, struct data_dir *dirs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        data_dir_close(s, &dirs[i]);
    }
}

enum err data_dir_open(struct shard *s,
                       const char *path,
                       int32_t node_id,
                       char why[DATA_WHY_SIZE],
                       struct data_dir *ret_dir)
{
    const struct data_dirs_open how = {.paths = &path, .count = 1, .node_id = node_id};
    return data_dirs_open(s, &how, why, ret_dir);
}

void data_dir_close(struct shard *s, struct data_dir *d)
{
    let_go(s, d);
    free(d->path);
    *d = (struct data_dir){.path = NULL};
}
