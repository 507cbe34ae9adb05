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

/* What all steps of an open share. */
struct opening {
    struct shard *s;
    const char *path;
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
                      "data directory %s is in use by another process; stop that one or use "
                      "another --data-dir",
                      o->path);
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
        !read_uuid(object, "directory_id", &o->d.directory_id) || !json_is_integer(node_id) ||
        json_integer_value(node_id) < 0 || json_integer_value(node_id) > INT32_MAX) {
        return refuse_damaged(o, "lacks cluster_id, directory_id or node_id");
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
    o->d.is_new = true;
    o->d.node_id = o->node_id;
    o->d.cluster_id = rand_uuid(&o->s->rand);
    o->d.directory_id = rand_uuid(&o->s->rand);
    char cluster[UUID_TEXT_SIZE];
    char directory[UUID_TEXT_SIZE];
    char text[FORMAT_SIZE_MAX];
    uuid_format(&o->d.cluster_id, cluster);
    uuid_format(&o->d.directory_id, directory);
    (void)snprintf(text,
                   sizeof(text),
                   "{\n  \"version\": %d,\n  \"cluster_id\": \"%s\",\n  \"node_id\": %" PRId32
                   ",\n  \"directory_id\": \"%s\"\n}\n",
                   DATA_FORMAT_VERSION,
                   cluster,
                   o->node_id,
                   directory);
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
static enum err found_directory(struct opening *o)
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
    return write_format(o);
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
        return found_directory(o);
    }
    return refuse(o, e, "cannot read %s: %s; check its permissions", o->name, err_name(e));
}

static enum err merge_stores(struct opening *o)
{
    char *path = NULL;
    enum err e = store_merge(o->s, o->path, &path);
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
    } else if (e == ERR_NEWER_FORMAT) {
        e = refuse(o, e, "%s was written by a newer version; start that one again", name);
    } else if (e == ERR_NO_SPACE) {
        e = refuse(o, e, "no space to rearrange %s for another core count; free some", name);
    } else if (e != ERR_OK) {
        e = refuse(o, e, "cannot read %s: %s; check the disk", name, err_name(e));
    }
    free(path);
    return e;
}

static enum err open_locked(struct opening *o)
{
    enum err e = check_file_system(o);
    if (e == ERR_OK) {
        e = open_format(o);
    }
    return e == ERR_OK ? merge_stores(o) : e;
}

enum err data_dir_open(struct shard *s,
                       const char *path,
                       int32_t node_id,
                       char why[DATA_WHY_SIZE],
                       struct data_dir *ret_dir)
{
    assert(node_id >= 0);
    struct opening *o = calloc(1, sizeof(*o));
    char *copy = strdup(path);
    enum err e = ERR_BUSY;
    if (o == NULL || copy == NULL) {
        (void)snprintf(why, DATA_WHY_SIZE, "out of memory; give the process more");
        goto out_free;
    }
    *o = (struct opening){.s = s, .path = copy, .node_id = node_id, .why = why};
    for (size_t size = strlen(copy); size > 1 && copy[size - 1] == '/'; size--) {
        copy[size - 1] = 0;
    }
    if (copy[0] == 0 || strlen(copy) > PATH_SIZE_MAX - 32) {
        e = refuse(o, ERR_INVALID, "the data directory's path is empty or too long; shorten it");
        goto out_free;
    }
    e = make_directory(o);
    if (e == ERR_OK) {
        e = lock_directory(o);
    }
    if (e != ERR_OK) {
        goto out_free;
    }
    e = open_locked(o);
    if (e != ERR_OK) {
        io_unlock(&s->io, o->d.lock_handle);
        goto out_free;
    }
    *ret_dir = o->d;
    ret_dir->path = copy;
    free(o);
    return ERR_OK;

out_free:
    free(o);
    free(copy);
    return e;
}

void data_dir_close(struct shard *s, struct data_dir *d)
{
    io_unlock(&s->io, d->lock_handle);
    free(d->path);
    *d = (struct data_dir){.path = NULL};
}
