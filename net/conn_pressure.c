/* When memory runs out, those who sit on it let go first.
 *
 * A frame gets its memory when its first bytes are there, and an answer keeps its memory until the
 * peer took it: with little sent, or nothing read, a peer holds megabytes until the idle timeout.
 * That is nobody's business while there is enough. Once the pool refuses somebody, or a frame waits
 * for others to send what they announced (conn_receive.c), connections that have
 * held a half frame or an untaken answer for patience_us without getting on are closed, a share of
 * the memory at a time, oldest connection first, until the pool refuses nobody any more.
 */
#include "core/assert.h"
#include "core/shard.h"
#include "net/conn_priv.h"

enum {
    CALM_CHECK_US = 1000 * 1000,
    PRESSURE_CHECK_US = 100 * 1000,
    PRESSURE_SHARE = 16,   /* Of the shard's memory is freed per check. */
    PATIENCE_LOST_MAX = 2, /* Halvings: what was freed may go to the next of the same kind. */
};

static uint64_t held_size(const struct conn *c)
{
    return (c->incoming == NULL ? 0 : c->incoming->frame_buf->capacity) + c->answers_size;
}

static bool is_stale(const struct conn *c, uint64_t before_us)
{
    if (c->state >= CONN_CLOSING) {
        return false; /* What it holds is on its way back. */
    }
    /* One that is blocked waits for us. */
    const bool is_half =
        c->incoming != NULL && !c->is_blocked && c->incoming->received_us <= before_us;
    const bool is_untaken = !list_is_empty(&c->sending) && c->sending_us <= before_us;
    return is_half || is_untaken;
}

static void log_closed(struct conn_server *cs, const struct conn *c)
{
    uint64_t held;
    if (!log_limit_pass(&cs->log_stale, cs->shard->now_us, &held)) {
        return;
    }
    log_warn(
        cs->shard->log,
        "connection_holds_memory",
        "peer=%s size=%llu what=%s held_back=%llu action=closing hint=\"memory is short: raise "
        "--memory, or look what this client does\"",
        c->peer,
        (unsigned long long)held_size(c),
        c->incoming == NULL ? "untaken_answers" : "half_frame",
        (unsigned long long)held);
}

static void close_stale(struct conn_server *cs)
{
    const uint64_t now_us = cs->shard->now_us;
    const uint64_t patience_us = cs->limits.patience_us >> cs->patience_lost;
    if (now_us < patience_us) {
        return;
    }
    const uint64_t wanted_size = buf_pool_counters(cs->shard->bufs)->size_max / PRESSURE_SHARE;
    uint64_t freed_size = 0;
    uint32_t closed_count = 0;
    list_for_each_safe (node, &cs->conns) {
        struct conn *c = container_of(node, struct conn, link);
        if (!is_stale(c, now_us - patience_us)) {
            continue;
        }
        closed_count++;
        freed_size += held_size(c);
        log_closed(cs, c);
        conn_close(c);
        if (freed_size >= wanted_size) {
            break;
        }
    }
    cs->counters.stale_closed += closed_count;
    if (closed_count > 0 && cs->patience_lost < PATIENCE_LOST_MAX) {
        cs->patience_lost++;
    }
}

static void on_check(struct timer *t)
{
    struct conn_server *cs = container_of(t, struct conn_server, pressure_timer);
    const uint64_t refused = buf_pool_counters(cs->shard->bufs)->refused;
    /* Whoever waits was refused, perhaps long ago, and tries again only when some memory comes
     * back: it counts as if refused now. */
    const bool is_short = refused != cs->refused_seen || buf_pool_has_waiters(cs->shard->bufs) ||
                          !list_is_empty(&cs->announce_waiters);
    cs->refused_seen = refused;
    if (is_short) {
        close_stale(cs);
        conn_receive_wake_announcers(cs); /* Should one that was woken have gone instead. */
    } else {
        cs->patience_lost = 0;
    }
    if (cs->counters.conns > 0) {
        shard_timer_arm(cs->shard, t, is_short ? PRESSURE_CHECK_US : CALM_CHECK_US);
    }
}

void conn_pressure_init(struct conn_server *cs)
{
    timer_init(&cs->pressure_timer, on_check);
    cs->refused_seen = buf_pool_counters(cs->shard->bufs)->refused;
}

void conn_pressure_watch(struct conn_server *cs)
{
    if (!timer_is_armed(&cs->pressure_timer)) {
        shard_timer_arm(cs->shard, &cs->pressure_timer, CALM_CHECK_US);
    }
}

void conn_pressure_done(struct conn_server *cs)
{
    timer_cancel(&cs->shard->timers, &cs->pressure_timer);
}
