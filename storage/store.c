#include "storage/store.h"

#include <inttypes.h>
#include <stdlib.h>

#include "core/assert.h"
#include "core/reached.h"
#include "storage/store_priv.h"

enum {
    CONFIRM_US = 10 * 1000,
    GROW_RETRY_US = 1000 * 1000,
    IMAGE_BLOCKS_KEPT = 64, /* A larger image is given back after use. */
    PENDING_SIZE_MIN = 1 << 20,
};

/* Live values above this part of an area ask for a larger one. */
static const uint64_t GROW_ABOVE_PERCENT = 50;
/* Above this, changes wait for it: snapshots would follow each other too closely. */
static const uint64_t FULL_ABOVE_PERCENT = 75;

/* ---- memory -------------------------------------------------------------------------------- */

static void on_write(struct flush_client *c);
static void on_flushed(struct flush_client *c);
static void on_flusher_failed(struct flush_client *c);
static void on_wake(struct task *t);
static void on_confirm_timer(struct timer *t);
static void on_grow_timer(struct timer *t);

static const struct flush_client_ops client_ops = {
    .write = on_write, .on_flushed = on_flushed, .on_failed = on_flusher_failed};

struct store *store_new(struct shard *s, const struct store_open *how)
{
    struct store *st = calloc(1, sizeof(*st));
    if (st == NULL) {
        return NULL;
    }
    st->s = s;
    st->flusher = how->flusher;
    st->owner = (struct store_owner){how->directory_id, s->id, s->shards_count};
    st->stats_labels = how->stats_labels == NULL ? s->stats_label : how->stats_labels;
    st->fd = -1;
    st->dir = strdup(how->dir);
    st->path = store_path(how->dir, s->id, "");
    st->path_new = store_path(how->dir, s->id, ".new");
    enum err e = store_map_init(&st->map, s->hash_seed);
    wbuf_init(&st->pending, SIZE_MAX);
    list_init(&st->waiting);
    flush_client_init(&st->client, &client_ops);
    task_init(&st->wake_task, "store_wake", on_wake);
    timer_init(&st->confirm_timer, on_confirm_timer);
    timer_init(&st->grow_timer, on_grow_timer);
    if (e != ERR_OK || st->dir == NULL || st->path == NULL || st->path_new == NULL) {
        store_delete_memory(st);
        return NULL;
    }
    return st;
}

void store_delete_memory(struct store *st)
{
    store_map_done(&st->map);
    wbuf_done(&st->pending);
    free(st->image);
    free(st->dir);
    free(st->path);
    free(st->path_new);
    free(st);
}

static enum err ensure_image(struct store *st, uint64_t blocks)
{
    assert(!st->is_op_busy);
    if (blocks <= st->image_blocks) {
        return ERR_OK;
    }
    uint8_t *image = aligned_alloc(IO_ALIGN, blocks * STORE_BLOCK_SIZE);
    if (image == NULL) {
        return ERR_BUSY;
    }
    free(st->image);
    st->image = image;
    st->image_blocks = blocks;
    return ERR_OK;
}

static void trim_image(struct store *st)
{
    if (st->image_blocks > IMAGE_BLOCKS_KEPT) {
        free(st->image);
        st->image = NULL;
        st->image_blocks = 0;
    }
}

static uint64_t area_payload_size(uint32_t area_blocks, uint64_t percent)
{
    return (uint64_t)area_blocks * STORE_BLOCK_PAYLOAD_SIZE * percent / 100;
}

static bool is_above(const struct store *st, uint64_t percent)
{
    return st->map.live_size > area_payload_size(st->area_blocks, percent);
}

uint32_t store_area_blocks_for(const struct store *st, uint32_t area_blocks_min)
{
    uint32_t blocks = area_blocks_min;
    while (blocks < STORE_AREA_BLOCKS_MAX &&
           st->map.live_size > area_payload_size(blocks, GROW_ABOVE_PERCENT / 2)) {
        blocks *= 2;
    }
    return blocks;
}

/* ---- writing ------------------------------------------------------------------------------- */

enum err store_encode_snapshot(struct store *st)
{
    uint64_t blocks = store_blocks_of(st->map.live_size);
    blocks = blocks == 0 ? 1 : blocks;
    if (blocks > st->area_blocks) {
        return ERR_TOO_LARGE;
    }
    struct wbuf stream;
    wbuf_init(&stream, SIZE_MAX);
    store_map_snapshot(&st->map, &stream);
    enum err e = wbuf_failure(&stream);
    if (e == ERR_OK) {
        e = ensure_image(st, blocks);
    }
    if (e == ERR_OK) {
        assert_cmp(stream.size, ==, st->map.live_size);
        st->snapshot_blocks = (uint32_t)blocks;
        st->tail_blocks = (uint32_t)blocks;
        st->durable_blocks = 0;
        st->confirmed_blocks = 0;
        const struct store_stamp stamp = {
            .salt = st->salt, .epoch = st->epoch, .snapshot_blocks = st->snapshot_blocks};
        (void)store_blocks_encode(&stamp, wbuf_slice(&stream), st->image);
    }
    wbuf_done(&stream);
    return e;
}

/* All changes so far are in what is being written. */
static void take_pending(struct store *st)
{
    st->pending.size = 0;
    st->needs_snapshot = false;
    st->taken_sequence = st->sequence;
}

static void on_written(struct io_op *op);

static void submit_write(struct store *st, uint32_t index, uint32_t blocks)
{
    assert(!st->is_op_busy);
    st->is_op_busy = true;
    st->blocks_written += blocks;
    st->op = (struct io_op){
        .kind = IO_WRITE,
        .fd = st->fd,
        .buf = st->image,
        .size = (uint64_t)blocks * STORE_BLOCK_SIZE,
        .pos = store_area_pos(st->area_blocks, st->area) + (uint64_t)index * STORE_BLOCK_SIZE,
        .on_done = on_written,
    };
    io_submit(&st->s->io, &st->op);
}

static enum err append_pending(struct store *st, uint32_t blocks)
{
    enum err e = ensure_image(st, blocks);
    if (e != ERR_OK) {
        return e;
    }
    const struct store_stamp stamp = {
        .salt = st->salt,
        .epoch = st->epoch,
        .index = st->tail_blocks,
        .snapshot_blocks = st->snapshot_blocks,
        .durable_blocks = st->durable_blocks,
    };
    (void)store_blocks_encode(&stamp, wbuf_slice(&st->pending), st->image);
    st->confirmed_blocks = st->durable_blocks;
    st->tail_blocks += blocks;
    take_pending(st);
    flusher_write_started(st->flusher, st->fd);
    submit_write(st, stamp.index, blocks);
    return ERR_OK;
}

static enum err write_snapshot(struct store *st)
{
    st->epoch++;
    enum err e = store_encode_snapshot(st);
    if (e != ERR_OK) {
        st->epoch--;
        return e;
    }
    st->area = 1 - st->area;
    st->snapshots++;
    reached(st->s, "store_area_switched");
    take_pending(st);
    flusher_write_started(st->flusher, st->fd);
    submit_write(st, 0, st->snapshot_blocks);
    return ERR_OK;
}

/* The snapshot goes to the new file, which is from here on what st describes; the old one stays
 * open, as birth.fd, until the new one has its name. */
static enum err write_to_new_file(struct store *st)
{
    uint32_t area_blocks = st->area_blocks;
    uint64_t salt = st->salt;
    st->area_blocks = st->birth.area_blocks;
    st->salt = st->birth.salt;
    st->epoch++;
    enum err e = store_encode_snapshot(st);
    if (e != ERR_OK) {
        st->area_blocks = area_blocks;
        st->salt = salt;
        st->epoch--;
        return e;
    }
    int old_fd = st->fd;
    st->fd = st->birth.fd;
    st->birth.fd = old_fd;
    st->area = 0;
    st->growth = STORE_GROWTH_WRITTEN;
    take_pending(st);
    st->growth_sequence = st->taken_sequence;
    flusher_write_started(st->flusher, st->fd);
    submit_write(st, 0, st->snapshot_blocks);
    return ERR_OK;
}

static void begin_growth(struct store *st);

/* Nothing can be taken by a round now; something else will ask for one. */
static bool is_held(const struct store *st)
{
    return st->growth >= STORE_GROWTH_WRITTEN;
}

static bool fits_tail(const struct store *st)
{
    return !st->needs_snapshot &&
           store_blocks_of(st->pending.size) <= st->area_blocks - st->tail_blocks;
}

/* Writes what there is. ERR_BUSY: later. */
static enum err write_changes(struct store *st)
{
    if (st->growth == STORE_GROWTH_READY) {
        return write_to_new_file(st);
    }
    if (is_held(st) || st->taken_sequence == st->sequence) {
        return ERR_OK;
    }
    if (fits_tail(st)) {
        return append_pending(st, (uint32_t)store_blocks_of(st->pending.size));
    }
    if (st->durable_blocks < st->snapshot_blocks) {
        return ERR_OK; /* Invariant 2; on_flushed of that snapshot asks again. */
    }
    if (is_above(st, GROW_ABOVE_PERCENT)) {
        begin_growth(st);
    }
    return is_above(st, FULL_ABOVE_PERCENT) ? ERR_OK : write_snapshot(st);
}

static void take_round(struct store *st)
{
    enum err e = write_changes(st);
    if (e != ERR_OK) {
        /* No memory for the blocks: the changes stay pending, and the next round tries again. */
        assert(e == ERR_BUSY);
    }
    assert(st->marks_count < 2);
    st->marks[st->marks_count++] = (struct store_mark){
        .epoch = st->epoch,
        .sequence = st->taken_sequence,
        .tail_blocks = st->tail_blocks,
        .is_held = is_held(st),
    };
}

static void on_write(struct flush_client *c)
{
    struct store *st = container_of(c, struct store, client);
    if (st->failure != ERR_OK) {
        flusher_write_started(st->flusher, st->fd);
        flusher_write_done(st->flusher, st->failure);
        return;
    }
    if (st->is_op_busy) {
        /* The confirming block is under way. What comes behind it must not become durable without
         * it, or recovery would stop at the hole. */
        reached(st->s, "store_round_held");
        st->is_round_held = true;
        flusher_write_started(st->flusher, st->fd);
        return;
    }
    take_round(st);
}

static void finish_free(struct store *st);

static void on_written(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    st->is_op_busy = false;
    trim_image(st);
    flusher_write_done(st->flusher, op->result);
    if (st->is_freed) {
        finish_free(st);
    }
}

/* ---- durable ------------------------------------------------------------------------------- */

static void wake(struct store *st)
{
    while (!list_is_empty(&st->waiting)) {
        struct store_wait *w = container_of(st->waiting.next, struct store_wait, link);
        if (w->sequence > st->durable_sequence) {
            break;
        }
        list_remove(&w->link);
        w->on_durable(w); /* May wait again; may free w. */
    }
}

static void go_on_closing(struct store *st);

/* Somebody waits for what is durable already. */
static void on_wake(struct task *t)
{
    struct store *st = container_of(t, struct store, wake_task);
    wake(st);
    go_on_closing(st);
}

/* Changes do not fit anywhere before there is a larger file. */
static bool waits_for_growth(const struct store *st)
{
    bool is_coming = st->growth == STORE_GROWTH_MAKING || timer_is_armed(&st->grow_timer);
    return is_coming && !fits_tail(st) && is_above(st, FULL_ABOVE_PERCENT);
}

static void ask(struct store *st)
{
    bool has_work = st->taken_sequence != st->sequence || st->growth == STORE_GROWTH_READY;
    if (has_work && !is_held(st) && !waits_for_growth(st)) {
        flusher_ask(st->flusher, &st->client);
    }
}

static void arm_confirm(struct store *st)
{
    if (st->durable_blocks > st->confirmed_blocks && !timer_is_armed(&st->confirm_timer)) {
        shard_timer_arm(st->s, &st->confirm_timer, CONFIRM_US);
    }
}

static void on_flushed(struct flush_client *c)
{
    struct store *st = container_of(c, struct store, client);
    assert(st->marks_count > 0);
    struct store_mark mark = st->marks[0];
    st->marks[0] = st->marks[1];
    st->marks_count--;
    if (mark.epoch == st->epoch && mark.tail_blocks > st->durable_blocks) {
        st->durable_blocks = mark.tail_blocks;
    }
    if (!mark.is_held) {
        assert(mark.sequence >= st->durable_sequence);
        st->durable_sequence = mark.sequence;
        wake(st);
    } else if (st->growth == STORE_GROWTH_WRITTEN) {
        st->growth = STORE_GROWTH_INSTALLING;
        store_birth_install(&st->birth);
    }
    ask(st); /* This round may have been in the way of the changes made since. */
    arm_confirm(st);
    go_on_closing(st);
}

static void on_flusher_failed(struct flush_client *c)
{
    go_on_closing(container_of(c, struct store, client));
}

void store_wait_durable(struct store *st, struct store_wait *w)
{
    w->sequence = st->sequence;
    list_push_back(&st->waiting, &w->link);
    if (w->sequence <= st->durable_sequence) {
        shard_post(st->s, &st->wake_task);
    }
}

void store_wait_cancel(struct store *st, struct store_wait *w)
{
    (void)st;
    if (w->link.next != NULL) {
        list_remove(&w->link);
    }
}

/* ---- confirming ---------------------------------------------------------------------------- */

static void on_confirmed(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    st->is_op_busy = false;
    bool is_round_held = st->is_round_held;
    st->is_round_held = false;
    if (op->result != ERR_OK) {
        st->failure = op->result;
    }
    if (is_round_held) {
        if (op->result == ERR_OK && !st->is_freed) {
            take_round(st);
        }
        flusher_write_done(st->flusher, op->result);
    } else if (op->result != ERR_OK) {
        flusher_ask(st->flusher, &st->client);
    }
    if (st->is_freed) {
        finish_free(st);
    }
}

/* Nothing was changed for a while: says in one more block that what stands before it is durable, so
 * that damage to it is told from a torn write (store_format.h, invariant 3). Nobody waits for that
 * block, so it asks for no flush of its own. */
static void on_confirm_timer(struct timer *t)
{
    struct store *st = container_of(t, struct store, confirm_timer);
    bool is_quiet = st->marks_count == 0 && st->taken_sequence == st->sequence;
    bool is_due = st->durable_blocks > st->confirmed_blocks && st->tail_blocks < st->area_blocks &&
                  !is_held(st);
    if (!is_due) {
        return;
    }
    if (!is_quiet || st->is_op_busy || ensure_image(st, 1) != ERR_OK) {
        shard_timer_arm(st->s, &st->confirm_timer, CONFIRM_US);
        return;
    }
    const struct store_stamp stamp = {
        .salt = st->salt,
        .epoch = st->epoch,
        .index = st->tail_blocks,
        .snapshot_blocks = st->snapshot_blocks,
        .durable_blocks = st->durable_blocks,
    };
    (void)store_blocks_encode(&stamp, (struct slice){0}, st->image);
    st->confirmed_blocks = st->durable_blocks;
    st->tail_blocks++;
    submit_write(st, stamp.index, 1);
    st->op.on_done = on_confirmed;
}

/* ---- growing ------------------------------------------------------------------------------- */

static void on_old_file_closed(struct io_op *op)
{
    struct store *st = container_of(op, struct store, birth.op);
    st->growth = STORE_GROWTH_NONE;
    if (st->is_freed) {
        finish_free(st);
    }
}

static void on_installed(struct store *st)
{
    st->growths++;
    st->has_growth_failed = false;
    st->durable_sequence = st->growth_sequence;
    st->growth = STORE_GROWTH_CLOSING;
    st->birth.op =
        (struct io_op){.kind = IO_CLOSE, .fd = st->birth.fd, .on_done = on_old_file_closed};
    io_submit(&st->s->io, &st->birth.op);
    log_info(st->s->log, "store_grown", "path=%s area_blocks=%" PRIu32, st->path, st->area_blocks);
    if (!st->is_freed) {
        wake(st);
        ask(st);
        arm_confirm(st);
        go_on_closing(st);
    }
}

static void on_growth_failed(struct store *st, enum err e)
{
    bool is_lost = is_held(st); /* Its file may have the name or not: nobody knows which counts. */
    if (st->is_freed) {
        st->growth = STORE_GROWTH_NONE;
        finish_free(st);
        return;
    }
    if (is_lost) {
        st->failure = e;
        flusher_ask(st->flusher, &st->client);
        return;
    }
    if (!st->has_growth_failed) {
        log_warn(st->s->log,
                 "store_not_grown",
                 "path=%s error=%s action=free_disk_space",
                 st->path,
                 err_name(e));
    }
    st->growth = STORE_GROWTH_NONE;
    st->has_growth_failed = true;
    shard_timer_arm(st->s, &st->grow_timer, GROW_RETRY_US);
}

static void on_growth_step(void *context, enum err e)
{
    struct store *st = context;
    if (e != ERR_OK) {
        on_growth_failed(st, e);
    } else if (st->growth == STORE_GROWTH_INSTALLING) {
        on_installed(st);
    } else if (st->is_freed) {
        st->growth = STORE_GROWTH_ABANDONING;
        store_birth_abandon(&st->birth);
    } else {
        st->growth = STORE_GROWTH_READY;
        ask(st);
    }
}

static void begin_growth(struct store *st)
{
    uint32_t area_blocks = store_area_blocks_for(st, st->area_blocks);
    if (st->growth != STORE_GROWTH_NONE || timer_is_armed(&st->grow_timer) ||
        area_blocks == st->area_blocks) {
        return;
    }
    st->growth = STORE_GROWTH_MAKING;
    st->birth = (struct store_birth){
        .s = st->s,
        .flusher = st->flusher,
        .dir = st->dir,
        .path = st->path,
        .path_new = st->path_new,
        .owner = st->owner,
        .area_blocks = area_blocks,
        .context = st,
        .on_step = on_growth_step,
    };
    store_birth_begin(&st->birth);
}

static void on_grow_timer(struct timer *t)
{
    struct store *st = container_of(t, struct store, grow_timer);
    if (is_above(st, GROW_ABOVE_PERCENT)) {
        begin_growth(st);
    } else {
        st->has_growth_failed = false;
    }
    ask(st);
}

/* ---- life ---------------------------------------------------------------------------------- */

static_assert(sizeof(size_t) == sizeof(uint64_t), "the metrics page reads live_size as uint64_t");

static void export_stats(struct store *st)
{
    const struct stat described[STORE_STATS_COUNT] = {
        {.kind = STAT_COUNTER,
         .name = "coreflume_store_changes_total",
         .help = "Changes of small durable values.",
         .value = &st->sequence},
        {.kind = STAT_COUNTER,
         .name = "coreflume_store_blocks_written_total",
         .help = "Blocks of 4 KiB written for small durable values.",
         .value = &st->blocks_written},
        {.kind = STAT_COUNTER,
         .name = "coreflume_store_snapshots_total",
         .help = "Snapshots of all small durable values.",
         .value = &st->snapshots},
        {.kind = STAT_GAUGE,
         .name = "coreflume_store_live_bytes",
         .help = "Small durable values, as records.",
         .value = &st->map.live_size},
    };
    for (size_t i = 0; i < STORE_STATS_COUNT; i++) {
        st->exported[i] = described[i];
        st->exported[i].labels = st->stats_labels;
        stats_add(&st->s->stats, &st->exported[i]);
    }
}

void store_start(struct store *st)
{
    export_stats(st);
    st->durable_blocks = st->tail_blocks;
    arm_confirm(st);
}

static void on_file_closed(struct io_op *op)
{
    struct store *st = container_of(op, struct store, op);
    void *context = st->closed_context;
    void (*on_closed)(void *context) = st->on_closed;
    store_delete_memory(st);
    if (on_closed != NULL) {
        on_closed(context);
    }
}

static void finish_free(struct store *st)
{
    if (st->is_op_busy || st->growth != STORE_GROWTH_NONE) {
        return; /* Comes again when that has ended. */
    }
    st->is_op_busy = true;
    st->op = (struct io_op){.kind = IO_CLOSE, .fd = st->fd, .on_done = on_file_closed};
    io_submit(&st->s->io, &st->op);
}

static bool has_outstanding(const struct store *st)
{
    return st->marks_count > 0 || st->durable_sequence != st->sequence ||
           !list_is_empty(&st->waiting);
}

/* Lets go of everything but what is in flight. */
static void begin_free(struct store *st)
{
    while (list_pop_front(&st->waiting) != NULL) {
    }
    flusher_withdraw(st->flusher, &st->client);
    list_remove(&st->wake_task.link);
    timer_cancel(&st->s->timers, &st->confirm_timer);
    timer_cancel(&st->s->timers, &st->grow_timer);
    for (size_t i = 0; i < STORE_STATS_COUNT; i++) {
        stats_remove(&st->exported[i]);
    }
    st->is_freed = true;
    if (st->growth == STORE_GROWTH_READY || st->growth == STORE_GROWTH_WRITTEN) {
        st->growth = STORE_GROWTH_ABANDONING;
        store_birth_abandon(&st->birth);
        return;
    }
    if (st->growth == STORE_GROWTH_INSTALLING && st->failure != ERR_OK) {
        st->growth = STORE_GROWTH_NONE; /* It ended, badly. */
    }
    finish_free(st);
}

static void go_on_closing(struct store *st)
{
    if (st->is_closing && !st->is_freed &&
        (flusher_is_failed(st->flusher) || !has_outstanding(st))) {
        begin_free(st);
    }
}

void store_close(struct store *st, void *context, void (*on_closed)(void *context))
{
    assert(!st->is_closing);
    st->closed_context = context;
    st->on_closed = on_closed;
    st->is_closing = true;
    go_on_closing(st);
}

void store_free(struct store *st)
{
    if (st != NULL) {
        store_close(st, NULL, NULL);
    }
}

/* ---- values -------------------------------------------------------------------------------- */

/* Where a change that adds is refused. */
static bool is_full_for(const struct store *st, size_t size)
{
    uint32_t area_blocks = st->has_growth_failed ? st->area_blocks : STORE_AREA_BLOCKS_MAX;
    return st->map.live_size + size > area_payload_size(area_blocks, FULL_ABOVE_PERCENT);
}

/* Makes a change: in memory now, and on its way to the disk. */
static enum err change(struct store *st, const struct store_record *r)
{
    assert(!st->is_closing);
    size_t pending_size = st->pending.size;
    if (!st->needs_snapshot) {
        store_record_encode(r, &st->pending);
        if (wbuf_failure(&st->pending) != ERR_OK) {
            st->pending.size = pending_size;
            st->pending.failure = ERR_OK;
            return ERR_BUSY;
        }
    }
    enum err e = store_map_apply(&st->map, r);
    if (e != ERR_OK) {
        st->pending.size = pending_size;
        return e;
    }
    st->sequence++;
    if (st->pending.size > PENDING_SIZE_MIN && st->pending.size > st->map.live_size) {
        /* A snapshot says it shorter. Bounds what waits while no round can take it. */
        st->pending.size = 0;
        st->needs_snapshot = true;
    }
    ask(st);
    return ERR_OK;
}

static uint64_t next_version(const struct store *st, const struct partition_id *log)
{
    const struct store_log *l = store_map_find(&st->map, log);
    return l == NULL ? 1 : l->version + 1;
}

static const struct store_value *find(const struct store *st, const struct store_key *key)
{
    const struct store_log *l = store_map_find(&st->map, &key->log);
    return l == NULL ? NULL : store_log_find(l, key->kind, key->sub);
}

enum err store_put(struct store *st, const struct store_key *key, struct slice value)
{
    if (value.size > STORE_VALUE_SIZE_MAX) {
        return ERR_TOO_LARGE;
    }
    const struct store_value *v = find(st, key);
    if (v != NULL && slice_equal(slice_of(v->data, v->size), value)) {
        return ERR_OK;
    }
    bool is_growing = v == NULL || value.size > v->size;
    if (is_growing && is_full_for(st, store_record_size(value.size))) {
        return ERR_NO_SPACE;
    }
    return change(st,
                  &(struct store_record){
                      .op = STORE_RECORD_PUT,
                      .log = key->log,
                      .kind = key->kind,
                      .sub = key->sub,
                      .version = next_version(st, &key->log),
                      .value = value,
                  });
}

enum err store_delete(struct store *st, const struct store_key *key)
{
    if (find(st, key) == NULL) {
        return ERR_OK;
    }
    return change(st,
                  &(struct store_record){
                      .op = STORE_RECORD_DELETE,
                      .log = key->log,
                      .kind = key->kind,
                      .sub = key->sub,
                      .version = next_version(st, &key->log),
                  });
}

enum err store_delete_log(struct store *st, const struct partition_id *log)
{
    const struct store_log *l = store_map_find(&st->map, log);
    if (l == NULL || l->values_count == 0) {
        return ERR_OK;
    }
    return change(st,
                  &(struct store_record){
                      .op = STORE_RECORD_DELETE_LOG,
                      .log = *log,
                      .version = l->version + 1,
                  });
}

bool store_get(const struct store *st, const struct store_key *key, struct slice *ret_value)
{
    const struct store_value *v = find(st, key);
    if (v == NULL) {
        return false;
    }
    *ret_value = slice_of(v->data, v->size);
    return true;
}

void store_each(const struct store *st,
                const struct partition_id *log,
                enum store_kind kind,
                void *context,
                void (*on_value)(void *context, uint64_t sub, struct slice value))
{
    const struct store_log *l = store_map_find(&st->map, log);
    if (l == NULL) {
        return;
    }
    for (uint32_t i = store_log_lower_bound(l, (uint32_t)kind, 0);
         i < l->values_count && l->values[i].kind == (uint32_t)kind;
         i++) {
        on_value(context, l->values[i].sub, slice_of(l->values[i].data, l->values[i].size));
    }
}

void store_each_log(const struct store *st,
                    void *context,
                    void (*on_log)(void *context, const struct partition_id *log))
{
    list_for_each_safe (node, &st->map.logs) {
        const struct store_log *l = container_of(node, struct store_log, link);
        if (l->values_count > 0) {
            on_log(context, &l->id);
        }
    }
}

void store_stats(const struct store *st, struct store_stats *ret_stats)
{
    *ret_stats = (struct store_stats){
        .changes = st->sequence,
        .snapshots = st->snapshots,
        .growths = st->growths,
        .live_size = st->map.live_size,
        .logs_count = st->map.logs_count,
        .blocks_written = st->blocks_written,
    };
}
