/* Which topics a pattern matches. Patterns are matched in turns of a bounded length: the first at
 * once, when a member comes with a new one, so that in most clusters it is done by the answer.
 *
 * All groups of a shard together have a tenth of its core for that, with a second's worth of credit
 * after a rest: however many patterns there are and whatever they cost, they only get late. The
 * measure is steps, not the clock. A pattern that was matched goes behind the others of its group,
 * so that each of them has its turn, also when topics come faster than they are matched. Between
 * groups there is no queue: all that wait look again after each turn, and a join may come first.
 */
#include <stdlib.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/arena.h"
#include "core/assert.h"
#include "core/reached.h"
#include "groups/consumer_priv.h"
#include "groups/topic_pattern.h"

enum {
    TURN_STEPS = 1 << 18, /* About a millisecond. */
    STEP_NS = 5,
    SHARE = 10,              /* One part in so many of a core. */
    CREDIT_US = 1000 * 1000, /* Of it: a tenth of that is matched at once. */
    TOPIC_STEPS = 64,        /* What a topic takes besides matching. */
    PAUSE_US = 1000 * 1000,  /* Between two looks at all topics. */
    RETRY_US = 1000 * 1000,
    NAMES_MIN = 64,
};

struct consumer_resolver {
    struct topic_pattern *pattern;
    struct arena arena;
    struct slice text;
    struct slice *names;
    size_t names_count;
    size_t names_room;
    uint32_t next;    /* Topic in the metadata. */
    bool is_outdated; /* It has seen some of older topics. */
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
        if (!topic_pattern_matches(r->pattern, name, steps)) {
            continue;
        }
        const enum err e = add_name(r, name);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* Not before then. */
static uint64_t turn_due_us(const struct group *g)
{
    const uint64_t matching_us = g->c->env->memory->matching_us;
    return matching_us > CREDIT_US ? matching_us - CREDIT_US : 0;
}

/* As match_some; the turn is due. */
static enum err resolver_turn(struct consumer_resolver *r, const struct group *g)
{
    struct group_memory *shared = g->c->env->memory;
    uint64_t steps = 0;
    const enum err e = match_some(r, g->c->env->metadata, &steps);
    const uint64_t now_us = g->c->time.now_us;
    const uint64_t from_us = shared->matching_us > now_us ? shared->matching_us : now_us;
    shared->matching_us = from_us + steps * STEP_NS * SHARE / 1000;
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

void consumer_put_resolved(const struct group *g, struct proposal *p, struct slice text)
{
    const struct consumer_regex *known =
        g->consumer == NULL ? NULL : consumer_regex_find(g->consumer, text);
    if (text.size == 0 || (known != NULL && known->is_resolved) ||
        g->c->time.now_us < turn_due_us(g)) {
        return;
    }
    struct consumer_resolver *r = resolver_new(text);
    if (r != NULL && resolver_turn(r, g) == ERR_OK) {
        put_result(r, g, p, 0);
    }
    resolver_free(r);
}

void consumer_put_regex_unused(const struct consumer *c, struct proposal *p, struct slice text)
{
    const struct consumer_regex *r = consumer_regex_find(c, text);
    if (r != NULL && r->is_resolved && r->members_count == 1) {
        consumer_put_regex_tombstone(c->g, p, text);
    }
}

/* ---- all of a group ---- */

static struct consumer_regex *next_stale(const struct consumer *c)
{
    list_for_each (link, &c->regexes) {
        struct consumer_regex *r = container_of(link, struct consumer_regex, link);
        if (r->members_count > 0 && (r->is_stale || !r->is_resolved)) {
            return r;
        }
    }
    return NULL;
}

static void drop_resolver(struct consumer *c)
{
    resolver_free(c->resolver);
    c->resolver = NULL;
}

static void note_stale(struct consumer *c)
{
    list_for_each (link, &c->regexes) {
        container_of(link, struct consumer_regex, link)->is_stale = true;
    }
}

void consumer_schedule_resolve(struct consumer *c)
{
    if (next_stale(c) != NULL) {
        const uint64_t now_us = c->g->c->time.now_us;
        group_timer_arm(&c->resolve, c->next_look_us > now_us ? c->next_look_us : now_us);
    }
}

static void on_resolved(struct proposal *p, enum err e)
{
    struct consumer *c = p->g->consumer;
    if (c == NULL || !p->c->is_active) {
        return;
    }
    if (e != ERR_OK) {
        note_stale(c); /* Which of them it was is not kept. */
        group_timer_arm(&c->resolve, p->c->time.now_us + RETRY_US);
        return;
    }
    consumer_on_topics_changed(c);
    consumer_schedule_resolve(c);
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

/* The resolver has seen all topics. False: try again later. */
static bool finish(struct consumer *c, struct consumer_regex *regex)
{
    list_remove(&regex->link);
    list_push_back(&c->regexes, &regex->link);
    if (is_known(regex, c->resolver)) {
        regex->is_stale = c->resolver->is_outdated;
        consumer_schedule_resolve(c);
        return true;
    }
    struct proposal *p = proposal_new(c->g, PROPOSAL_EXCLUSIVE, on_resolved);
    if (p == NULL) {
        return false;
    }
    regex->is_stale = c->resolver->is_outdated;
    put_result(c->resolver, c->g, p, regex->is_resolved ? regex->version + 1 : 0);
    drop_resolver(c);
    proposal_submit(p);
    return true;
}

static void on_resolve_due(struct group_timer *t)
{
    struct consumer *c = t->g->consumer;
    struct consumer_regex *regex = next_stale(c);
    if (regex == NULL) {
        drop_resolver(c);
        return;
    }
    const uint64_t now_us = c->g->c->time.now_us;
    if (now_us < turn_due_us(c->g)) {
        reached(c->g->c->env, "consumer_resolve_waits_for_its_share");
        group_timer_arm(t, turn_due_us(c->g));
        return;
    }
    if (c->resolver == NULL || !slice_equal(c->resolver->text, regex->text)) {
        drop_resolver(c);
        c->resolver = resolver_new(regex->text);
    }
    const enum err e = c->resolver == NULL ? ERR_BUSY : resolver_turn(c->resolver, c->g);
    if (e == ERR_TIMED_OUT) {
        reached(c->g->c->env, "consumer_resolve_next_turn");
        group_timer_arm(t, now_us + 1);
        return;
    }
    const bool is_over = e == ERR_OK && finish(c, regex);
    drop_resolver(c);
    if (!is_over) {
        group_timer_arm(t, now_us + RETRY_US);
    }
}

/* What is under way goes on, and begins anew behind the others: or no pattern would ever be matched
 * while topics come faster than that takes. */
void consumer_resolve_on_metadata(struct consumer *c)
{
    if (list_is_empty(&c->regexes)) {
        return;
    }
    note_stale(c);
    if (c->resolver != NULL) {
        c->resolver->is_outdated = true; /* Its next turn is armed. */
    } else {
        consumer_schedule_resolve(c);
    }
    const uint64_t now_us = c->g->c->time.now_us;
    if (c->next_look_us <= now_us) {
        c->next_look_us = now_us + PAUSE_US;
    }
}

void consumer_resolve_init(struct consumer *c)
{
    c->next_look_us = 0;
    group_timer_init(&c->resolve, c->g, on_resolve_due);
}

void consumer_resolve_done(struct consumer *c)
{
    group_timer_cancel(&c->resolve);
    drop_resolver(c);
}
