/* Which topics a pattern matches. Patterns are matched in turns of a bounded length: the first at
 * once, when a member comes with a new one and nobody is ahead of it, so that in most clusters it
 * is done by the answer; all others as the shard's queue says (groups/matching.h).
 *
 *   IDLE -> AGAIN or FIRST -> WRITING -> ... -> PAUSED -> IDLE
 *
 * When topics change, a group looks at them again: each pattern of it is matched, one after the
 * other, a turn at a time. What changes meanwhile is for the next look, a pause later: or no look
 * would ever end while topics come faster than they are matched, and each of them would write all
 * names anew. A pattern that a member waits for is matched first, whatever else is under way.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/arena.h"
#include "core/assert.h"
#include "core/reached.h"
#include "groups/consumer_priv.h"
#include "groups/matching.h"
#include "groups/topic_pattern.h"

enum {
    TURN_STEPS = 1 << 18,   /* About a millisecond. */
    TOPIC_STEPS = 64,       /* What a topic takes besides matching. */
    PAUSE_US = 1000 * 1000, /* Between two looks at all topics, also after what failed. */
    NAMES_MIN = 64,
};

struct consumer_resolver {
    struct topic_pattern *pattern;
    struct arena arena;
    struct slice text;
    struct slice *names;
    size_t names_count;
    size_t names_room;
    uint32_t next; /* Topic in the metadata. */
};

/* ---- one pattern ---- */

static void resolver_free(struct consumer_resolver *r)
{
    if (r != NULL) {
        topic_pattern_free(r->pattern);
        arena_done(&r->arena);
        free(r);
    }
}

/* NULL without memory, or if it is no pattern (then it would not have got so far). */
static struct consumer_resolver *resolver_new(struct slice text)
{
    struct consumer_resolver *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return NULL;
    }
    arena_init(&r->arena, CONSUMER_SCRATCH_SIZE_MAX);
    const char *copy = arena_strndup(&r->arena, (const char *)text.data, text.size);
    r->text = slice_of(copy, text.size);
    const char *why = NULL;
    if (copy == NULL || topic_pattern_new(text, &r->pattern, &why) != ERR_OK) {
        resolver_free(r);
        return NULL;
    }
    return r;
}

/* Names come in order. One that does not was added before: topics made since the last turn moved
 * it. */
static bool is_added(const struct consumer_resolver *r, struct slice name)
{
    return r->names_count > 0 && slice_compare(name, r->names[r->names_count - 1]) <= 0;
}

static enum err add_name(struct consumer_resolver *r, struct slice name)
{
    if (r->names_count == r->names_room) {
        const size_t room = r->names_room == 0 ? NAMES_MIN : r->names_room * 2;
        struct slice *names = arena_alloc_array(&r->arena, room, sizeof(*names));
        if (names == NULL) {
            return ERR_BUSY;
        }
        if (r->names_count > 0) {
            memcpy(names, r->names, r->names_count * sizeof(*names));
        }
        r->names = names;
        r->names_room = room;
    }
    const char *copy = arena_strndup(&r->arena, (const char *)name.data, name.size);
    if (copy == NULL) {
        return ERR_BUSY;
    }
    r->names[r->names_count++] = slice_of(copy, name.size);
    return ERR_OK;
}

/* ERR_OK: done. ERR_TIMED_OUT: more turns are needed. ERR_BUSY. */
static enum err match_some(struct consumer_resolver *r, const struct metadata *m, uint64_t *steps)
{
    for (; r->next < metadata_topics_count(m); r->next++) {
        if (*steps >= TURN_STEPS) {
            return ERR_TIMED_OUT;
        }
        const struct slice name = slice_of_string(metadata_topic_at(m, r->next)->name);
        *steps += TOPIC_STEPS;
        if (is_added(r, name) || !topic_pattern_matches(r->pattern, name, steps)) {
            continue;
        }
        const enum err e = add_name(r, name);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* As match_some. */
static enum err resolver_turn(struct consumer_resolver *r, const struct group *g)
{
    uint64_t steps = 0;
    const enum err e = match_some(r, g->c->env->metadata, &steps);
    matching_charge(g->c->env->matching, g->c->time.now_us, steps);
    return e;
}

static void put_result(const struct consumer_resolver *r,
                       const struct group *g,
                       struct proposal *p,
                       int64_t version)
{
    struct consumer_group_regular_expression_value v;
    consumer_group_regular_expression_value_init(&v);
    v.topics = r->names;
    v.topics_count = r->names_count;
    v.version = version;
    v.timestamp = g->c->time.wall_ms;
    consumer_put_regex(g, p, r->text, &v);
}

bool consumer_put_resolved(const struct group *g, struct proposal *p, struct slice text)
{
    const struct consumer_regex *known =
        g->consumer == NULL ? NULL : consumer_regex_find(g->consumer, text);
    if (text.size == 0 || (known != NULL && known->is_resolved) ||
        !matching_take(g->c->env->matching, g->c->time.now_us)) {
        return false;
    }
    struct consumer_resolver *r = resolver_new(text);
    const bool is_done = r != NULL && resolver_turn(r, g) == ERR_OK;
    if (is_done) {
        put_result(r, g, p, 0);
    }
    resolver_free(r);
    return is_done;
}

void consumer_put_regex_unused(const struct consumer *c, struct proposal *p, struct slice text)
{
    const struct consumer_regex *r = consumer_regex_find(c, text);
    if (r != NULL && r->is_resolved && r->members_count == 1) {
        consumer_put_regex_tombstone(c->g, p, text);
    }
}

/* ---- all of a group ---- */

/* One that a member waits for, or else one that this look has not come to; or NULL. */
static struct consumer_regex *next_of(const struct consumer *c)
{
    struct consumer_regex *stale = NULL;
    list_for_each (link, &c->regexes) {
        struct consumer_regex *r = container_of(link, struct consumer_regex, link);
        if (r->members_count > 0 && !r->is_resolved) {
            return r;
        }
        if (r->members_count > 0 && r->is_stale && stale == NULL) {
            stale = r;
        }
    }
    return stale;
}

static void drop_resolver(struct consumer *c)
{
    resolver_free(c->resolver);
    c->resolver = NULL;
}

static void enter(struct consumer *c, enum resolve_state state)
{
    struct matching *m = c->g->c->env->matching;
    group_timer_cancel(&c->resolve);
    c->resolve_state = state;
    matching_enter(m, &c->resolve.due_link, state == RESOLVE_FIRST);
    if (matching_due_us(m) > c->g->c->time.now_us) {
        reached(c->g->c->env, "consumer_resolve_waits_for_its_share");
    }
}

static void take_pause(struct consumer *c)
{
    c->resolve_state = RESOLVE_PAUSED;
    group_timer_arm(&c->resolve, c->g->c->time.now_us + PAUSE_US);
}

/* To the next turn, if there is anything left. */
static void go_on(struct consumer *c)
{
    const struct consumer_regex *next = next_of(c);
    if (next == NULL) {
        take_pause(c);
    } else {
        enter(c, next->is_resolved ? RESOLVE_AGAIN : RESOLVE_FIRST);
    }
}

static void look_again(struct consumer *c)
{
    c->is_outdated = false;
    list_for_each (link, &c->regexes) {
        container_of(link, struct consumer_regex, link)->is_stale = true;
    }
    go_on(c);
}

/* All are looked at again: which of them it was is not kept. */
static void fail(struct consumer *c)
{
    c->is_outdated = true;
    take_pause(c);
}

static void on_resolved(struct proposal *p, enum err e)
{
    struct consumer *c = p->g->consumer;
    if (c == NULL || !p->c->is_active) {
        return;
    }
    if (e != ERR_OK) {
        fail(c);
        return;
    }
    consumer_on_topics_changed(c);
    go_on(c);
}

static bool is_known(const struct consumer_regex *regex, const struct consumer_resolver *r)
{
    if (!regex->is_resolved || regex->topics_count != r->names_count) {
        return false;
    }
    for (size_t i = 0; i < r->names_count; i++) {
        if (!slice_equal(regex->topics[i], r->names[i])) {
            return false;
        }
    }
    return true;
}

/* The resolver has seen all topics. */
static void finish(struct consumer *c, struct consumer_regex *regex)
{
    regex->is_stale = false;
    if (is_known(regex, c->resolver)) {
        go_on(c);
        return;
    }
    struct proposal *p = proposal_new(c->g, PROPOSAL_EXCLUSIVE, on_resolved);
    if (p == NULL) {
        fail(c);
        return;
    }
    c->resolve_state = RESOLVE_WRITING;
    put_result(c->resolver, c->g, p, regex->is_resolved ? regex->version + 1 : 0);
    proposal_submit(p);
}

static void take_turn(struct consumer *c, struct consumer_regex *regex)
{
    if (c->resolver == NULL || !slice_equal(c->resolver->text, regex->text)) {
        drop_resolver(c);
        c->resolver = resolver_new(regex->text);
    }
    const enum err e = c->resolver == NULL ? ERR_BUSY : resolver_turn(c->resolver, c->g);
    if (e == ERR_TIMED_OUT) {
        reached(c->g->c->env, "consumer_resolve_next_turn");
        go_on(c);
        return;
    }
    list_remove(&regex->link);
    list_push_back(&c->regexes, &regex->link);
    if (e == ERR_OK) {
        finish(c, regex);
    } else {
        fail(c);
    }
    drop_resolver(c);
}

static void on_resolve_due(struct group_timer *t)
{
    struct consumer *c = t->g->consumer;
    if (c->resolve_state == RESOLVE_PAUSED) {
        c->resolve_state = RESOLVE_IDLE;
        if (c->is_outdated) {
            look_again(c);
        }
        return;
    }
    struct consumer_regex *regex = next_of(c);
    if (regex != NULL) {
        take_turn(c, regex);
    } else {
        drop_resolver(c);
        take_pause(c);
    }
}

void consumer_schedule_resolve(struct consumer *c)
{
    const struct consumer_regex *next = next_of(c);
    if (next != NULL && !next->is_resolved && c->resolve_state < RESOLVE_FIRST) {
        enter(c, RESOLVE_FIRST);
    }
}

void consumer_resolve_on_metadata(struct consumer *c)
{
    if (list_is_empty(&c->regexes)) {
        return;
    }
    if (c->resolve_state == RESOLVE_IDLE) {
        look_again(c);
    } else {
        c->is_outdated = true;
    }
}

void consumer_resolve_init(struct consumer *c)
{
    c->resolve_state = RESOLVE_IDLE;
    c->is_outdated = false;
    group_timer_init(&c->resolve, c->g, on_resolve_due);
}

void consumer_resolve_done(struct consumer *c)
{
    group_timer_cancel(&c->resolve);
    drop_resolver(c);
}
