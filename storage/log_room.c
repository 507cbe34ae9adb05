/* What an append may lack, and how it is told when that is there: memory, a place in the backlog,
 * zeros ahead, a segment, space on the disk.
 *
 *   refused -> wants_room -> on_room, once, when the append is worth trying again
 *
 *  1. A refusal for want of space is final as far as the owner is concerned (ERR_NO_SPACE): nobody
 *     knows for how long. So one who waits since before the disk became full (was_busy) is called,
 *     to learn that; and so is everybody when there is space again.
 *     The space that is left may be reserved for others (space.h): that is asked at every append
 *     that needs some, nothing is remembered.
 *  2. While is_full, the retry timer is armed: what needs space is tried again each second, nothing
 *     is tried in between.
 */
#include "core/logger.h"
#include "storage/log_priv.h"

enum err log_room_refuse(struct log *l, enum err e)
{
    l->wants_room = true;
    l->was_busy |= e == ERR_BUSY;
    l->stats.refused++;
    return e;
}

void log_room_promise(struct log *l)
{
    uint64_t size = 0;
    for (struct list *n = l->segments.prev; n != &l->segments && !l->is_failed; n = n->prev) {
        const struct log_segment *seg = container_of(n, struct log_segment, link);
        const uint64_t written_to = seg->is_usable ? seg->written_to : 0;
        const uint64_t end_pos = block_align_up(seg->tail_pos);
        if (end_pos <= written_to) {
            break;
        }
        size += end_pos - written_to;
    }
    space_promise(l->env.space, l->promised_size, size);
    l->promised_size = size;
}

static void retry_later(struct log *l)
{
    shard_timer_arm(log_shard(l), &l->retry, LOG_RETRY_US);
}

void log_room_start_birth(struct log *l, struct log_segment *seg)
{
    if (log_birth_start(l, seg) != ERR_OK) {
        retry_later(l);
    }
}

bool log_room_waits_for_space(const struct log *l)
{
    return l->is_full && timer_is_armed(&l->retry);
}

void log_room_offer(struct log *l)
{
    uint64_t backlog_size = l->appended_size - l->flushed_size;
    bool is_news = l->is_full ? l->was_busy : backlog_size <= LOG_BACKLOG_SIZE_MAX / 2;
    if (!l->wants_room || !is_news || l->is_failed || l->state != LOG_OPEN) {
        return;
    }
    l->wants_room = false;
    l->was_busy = false;
    l->callbacks->on_room(l->context);
}

void log_room_set_full(struct log *l, const char *what)
{
    if (l->env.space != NULL) {
        space_exhausted(l->env.space, what); /* Says so, once for all logs. */
    } else if (!l->is_full) {
        log_warn(log_shard(l)->log, "log_disk_full", "log=%s while=%s", l->name, what);
    }
    l->is_full = true;
    retry_later(l);
    log_room_offer(l);
}

void log_room_on_memory(struct buf_waiter *w)
{
    log_room_offer(container_of(w, struct log, memory));
}

/* A birth that a cut or close stopped, since there was nothing to write, is not begun again. */
static bool wants_birth(const struct log *l)
{
    const struct log_segment *tail = log_tail_segment(l);
    if (tail == NULL || tail->is_usable || l->birth != NULL) {
        return false;
    }
    bool has_unwritten = l->flushed_index < l->last_index;
    return l->state == LOG_OPEN || (l->state == LOG_CUTTING && has_unwritten) ||
           (l->state == LOG_CLOSING && has_unwritten && !l->is_full);
}

void log_room_resume(struct log *l)
{
    if (l->is_failed) {
        return;
    }
    if (wants_birth(l)) {
        log_room_start_birth(l, log_tail_segment(l));
    }
    log_fill_check(l);
    log_kick(l);
    log_room_offer(l);
}

void log_room_on_retry(struct timer *t)
{
    struct log *l = container_of(t, struct log, retry);
    /* A close waits for what was appended, unless the disk is full. */
    bool is_wanted = l->state == LOG_OPEN || l->state == LOG_CUTTING || l->state == LOG_CLOSING;
    if (l->is_failed || !is_wanted) {
        return;
    }
    log_birth_retry(l);
    log_room_resume(l);
}
