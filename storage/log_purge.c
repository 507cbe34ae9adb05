/* The store's values first, as in log_delete: files without them are leftovers for any later start,
 * while values without their files would be damage. Then the files, the directory, its name.
 *
 *   START -> WAIT_STORE -> [WAIT_PACE ->] WAIT_DISCARD ... -> WAIT_RMDIR -> WAIT_SYNC -> DONE
 */
#include "storage/log_purge.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "storage/log_priv.h"

enum {
    PURGE_PATH_SIZE = 4096,
};

enum purge_state {
    PURGE_START,
    PURGE_WAIT_STORE,
    PURGE_WAIT_PACE,
    PURGE_WAIT_DISCARD,
    PURGE_WAIT_RMDIR,
    PURGE_WAIT_SYNC,
    PURGE_DONE,
};

struct purge {
    const struct log_env *env;
    struct partition_id id;
    enum purge_state state;
    enum err result;
    struct recycle_discard discard;
    struct io_op op;
    struct task task;
    struct store_wait wait;
    struct pace_wait pace_wait;
    struct list link; /* In log_shared.purges, in PURGE_WAIT_STORE. */
    char **names;     /* Files still there; the last goes first. */
    size_t names_count;
    bool is_out_of_memory;
    char dir[PURGE_PATH_SIZE];
    char path[PURGE_PATH_SIZE + 256];
    void *context;
    void (*on_purged)(void *context, enum err e);
};

static void take_name(void *context, const char *name)
{
    struct purge *p = context;
    char **names = reallocarray(p->names, p->names_count + 1, sizeof(*names));
    if (names == NULL) {
        p->is_out_of_memory = true;
        return;
    }
    p->names = names;
    p->names[p->names_count] = strdup(name);
    if (p->names[p->names_count] == NULL) {
        p->is_out_of_memory = true;
        return;
    }
    p->names_count++;
}

static void finish(struct purge *p)
{
    for (size_t i = 0; i < p->names_count; i++) {
        free(p->names[i]);
    }
    free(p->names);
    void (*on_purged)(void *context, enum err e) = p->on_purged;
    void *context = p->context;
    enum err e = p->result;
    free(p);
    on_purged(context, e);
}

static void run(struct purge *p);

static void step_done(struct purge *p, enum err e)
{
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        p->result = e;
    }
    run(p);
}

static void on_io_done(struct io_op *op)
{
    struct purge *p = container_of(op, struct purge, op);
    flusher_sync_done(p->env->flusher, op);
    step_done(p, op->result);
}

static void on_discarded(struct recycle_discard *d, enum err e)
{
    step_done(container_of(d, struct purge, discard), e);
}

static void on_durable(struct store_wait *w)
{
    struct purge *p = container_of(w, struct purge, wait);
    list_remove(&p->link);
    run(p);
}

static void submit(struct purge *p, enum io_kind kind, const char *path, enum purge_state next)
{
    p->op = (struct io_op){
        .kind = kind,
        .path = path,
        .open_flags = next == PURGE_WAIT_RMDIR ? IO_OPEN_DIRECTORY : 0,
        .on_done = on_io_done,
    };
    p->state = next;
    io_submit(&p->env->s->io, &p->op);
}

static void discard_next(struct purge *p)
{
    if (p->names_count == 0) {
        submit(p, IO_UNLINK, p->dir, PURGE_WAIT_RMDIR);
        return;
    }
    char *name = p->names[--p->names_count];
    (void)snprintf(p->path, sizeof(p->path), "%s/%s", p->dir, name);
    free(name);
    p->state = PURGE_WAIT_DISCARD;
    struct recycle *rc = &p->env->shared->recycle;
    p->discard = (struct recycle_discard){
        .path = p->path,
        .written_size = recycle_size_of(rc, p->path),
        .on_done = on_discarded,
    };
    recycle_discard(rc, &p->discard);
}

static void list_files(struct purge *p)
{
    enum err e = io_list_dir(&p->env->s->io, p->dir, p, take_name);
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        p->result = e;
    } else if (p->is_out_of_memory) {
        p->result = ERR_BUSY;
    }
    if (p->result != ERR_OK) {
        finish(p);
    } else {
        discard_next(p);
    }
}

static void forget_values(struct purge *p)
{
    if (flusher_is_failed(p->env->flusher)) {
        p->result = ERR_FAILED; /* Nothing becomes durable any more: nobody would wake us. */
    } else {
        p->result = store_delete_log(p->env->store, &p->id);
    }
    p->state = PURGE_WAIT_STORE;
    if (p->result != ERR_OK) {
        finish(p);
        return;
    }
    list_push_back(&p->env->shared->purges, &p->link);
    p->wait.on_durable = on_durable;
    store_wait_durable(p->env->store, &p->wait);
}

void log_purge_abandon(struct log_shared *ls)
{
    struct list *link;
    while ((link = list_pop_front(&ls->purges)) != NULL) {
        struct purge *p = container_of(link, struct purge, link);
        store_wait_cancel(p->env->store, &p->wait);
        p->result = ERR_FAILED;
        shard_post(p->env->s, &p->task); /* Owners are told from the loop. */
    }
}

static void run(struct purge *p)
{
    if (p->result != ERR_OK) {
        finish(p);
        return;
    }
    switch (p->state) {
    case PURGE_START:
        forget_values(p);
        return;
    case PURGE_WAIT_STORE:
        p->state = PURGE_WAIT_PACE;
        if (!log_shared_paces_delete(p->env->shared, &p->pace_wait)) {
            list_files(p);
        }
        return;
    case PURGE_WAIT_PACE:
        list_files(p);
        return;
    case PURGE_WAIT_DISCARD:
        discard_next(p);
        return;
    case PURGE_WAIT_RMDIR:
        (void)snprintf(p->path, sizeof(p->path), "%s/logs", p->env->dir);
        submit(p, IO_FSYNC_DIR, p->path, PURGE_WAIT_SYNC);
        return;
    case PURGE_WAIT_SYNC:
        p->state = PURGE_DONE;
        finish(p);
        return;
    case PURGE_DONE:
        break;
    }
    assert(false && "a finished purge does not run");
}

static void on_turn(struct pace_wait *w, enum err e)
{
    (void)e; /* A stop leaves nothing to wait for. */
    run(container_of(w, struct purge, pace_wait));
}

static void run_task(struct task *t)
{
    run(container_of(t, struct purge, task));
}

void log_purge_begin(const struct log_env *env,
                     const struct partition_id *id,
                     void *context,
                     void (*on_purged)(void *context, enum err e))
{
    struct purge *p = calloc(1, sizeof(*p));
    if (p == NULL) {
        panic("out of memory: cannot remove a log");
    }
    p->env = env;
    p->id = *id;
    p->context = context;
    p->on_purged = on_purged;
    char topic[UUID_TEXT_SIZE];
    uuid_format(&id->topic_id, topic);
    (void)snprintf(p->dir, sizeof(p->dir), "%s/logs/%s-%" PRId32, env->dir, topic, id->partition);
    list_init(&p->wait.link);
    pace_wait_init(&p->pace_wait, on_turn);
    list_init(&p->link);
    task_init(&p->task, "log_purge", run_task);
    shard_post(env->s, &p->task);
}
