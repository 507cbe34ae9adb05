/* A member's way from what it has to its target. A member first gives back what is not its any
 * more, in its old epoch; then it enters the target's epoch, and gets what nobody else holds.
 *
 *              target changed                      gave all of it back
 *   STABLE ----------------------> UNREVOKED ----------------------------+
 *     ^  ^                                                               |
 *     |  +---------------------- nothing to give back, all is free <-----+
 *     |                                                                  |
 *     +------ all is free ------ UNRELEASED <--- others hold some -------+
 */
#include <stdlib.h>

#include "cluster/metadata.h"
#include "groups/consumer_priv.h"

/* Whether it still has something of what it must give back. Who does not say what it has, has. */
static bool still_has(const struct reconcile_input *in, const struct partition_set *set)
{
    return set->count > 0 && (in->owned == NULL || partition_set_overlaps(in->owned, set));
}

/* Adds to kept what the target has besides and nobody else holds; the epochs of what is new are the
 * target's. False at the arena's limit. */
static bool take_free(const struct reconcile_input *in,
                      struct arena *a,
                      const struct partition_set *kept,
                      struct partition_set *ret_set,
                      bool *ret_is_waiting)
{
    *ret_is_waiting = false;
    if (!partition_set_init(ret_set, a, in->target.count)) {
        return false;
    }
    for (uint32_t i = 0; i < in->target.count; i++) {
        const struct held_partition *p = &in->target.items[i];
        const struct held_partition *has = partition_set_find(kept, &p->topic_id, p->partition);
        const void *holder = partition_owners_find(in->owners, &p->topic_id, p->partition);
        if (has != NULL) {
            ret_set->items[ret_set->count++] = *has;
        } else if (holder == NULL || holder == in->holder) {
            partition_set_add(ret_set, &p->topic_id, p->partition, in->target_epoch);
        } else {
            *ret_is_waiting = true;
        }
    }
    return true;
}

static bool advance(const struct reconcile_input *in, struct arena *a, struct member_progress *ret)
{
    const struct member_progress *from = in->from;
    struct partition_set kept;
    struct partition_set lost;
    if (!partition_set_filter(&kept, a, &from->assigned, &in->target, true) ||
        !partition_set_filter(&lost, a, &from->assigned, &in->target, false)) {
        return false;
    }
    if (still_has(in, &lost)) {
        *ret = *from;
        ret->state = MEMBER_UNREVOKED;
        ret->assigned = kept;
        ret->pending = lost;
        return true;
    }
    bool is_waiting = false;
    struct partition_set assigned;
    if (!take_free(in, a, &kept, &assigned, &is_waiting)) {
        return false;
    }
    const bool is_new_epoch = from->epoch != in->target_epoch;
    *ret = (struct member_progress){
        .epoch = in->target_epoch,
        .previous_epoch = is_new_epoch ? from->epoch : from->previous_epoch,
        .state = is_waiting ? MEMBER_UNRELEASED : MEMBER_STABLE,
        .assigned = assigned,
    };
    return true;
}

/* It is to give back more than it was asked to before. */
static bool
give_back_more(const struct reconcile_input *in, struct arena *a, struct member_progress *ret)
{
    *ret = *in->from;
    return partition_set_filter(&ret->assigned, a, &in->from->assigned, &in->dropped, false) &&
           partition_set_unite(&ret->pending, a, &in->from->pending, &in->dropped);
}

bool consumer_reconcile(const struct reconcile_input *in,
                        struct arena *a,
                        struct member_progress *ret_progress)
{
    const struct member_progress *from = in->from;
    const bool is_there = from->state == MEMBER_STABLE && from->epoch == in->target_epoch;
    const bool is_held_up = from->state == MEMBER_UNREVOKED && still_has(in, &from->pending);
    if ((is_there || is_held_up) && in->dropped.count == 0) {
        *ret_progress = *from;
        return true;
    }
    return is_held_up ? give_back_more(in, a, ret_progress) : advance(in, a, ret_progress);
}

/* ---- what it subscribes to ---- */

static int compare_name(const void *name, const void *other)
{
    return slice_compare(*(const struct slice *)name, *(const struct slice *)other);
}

static bool has_name(const struct slice *names, size_t count, struct slice name)
{
    return count > 0 && bsearch(&name, names, count, sizeof(*names), compare_name) != NULL;
}

/* r: the member's pattern, if it has one; while its topics are not known it has none, as in Kafka.
 * What is gone is left to the next target: nothing comes from it. */
static bool is_subscribed(const struct consumer_member *m,
                          const struct consumer_regex *r,
                          const struct uuid *topic_id)
{
    const struct consumer_group_member_metadata_value *v = &m->metadata->v;
    const struct topic *t = metadata_topic_by_id(m->consumer->g->c->env->metadata, topic_id);
    if (t == NULL) {
        return true;
    }
    const struct slice name = slice_of_string(t->name);
    return has_name(v->subscribed_topic_names, v->subscribed_topic_names_count, name) ||
           (r != NULL && has_name(r->topics, r->topics_count, name));
}

static bool split(const struct consumer_member *m,
                  struct arena *a,
                  const struct partition_set *set,
                  struct partition_set *ret_subscribed,
                  struct partition_set *ret_dropped)
{
    if (!partition_set_init(ret_subscribed, a, set->count) ||
        !partition_set_init(ret_dropped, a, set->count)) {
        return false;
    }
    const struct consumer_regex *r =
        consumer_regex_find(m->consumer, m->metadata->v.subscribed_topic_regex);
    for (uint32_t i = 0, end = 0; i < set->count; i = end) {
        end = partition_set_topic_end(set, i);
        struct partition_set *to =
            is_subscribed(m, r, &set->items[i].topic_id) ? ret_subscribed : ret_dropped;
        for (uint32_t j = i; j < end; j++) {
            to->items[to->count++] = set->items[j];
        }
    }
    return true;
}

bool consumer_reconcile_begin(const struct consumer_member *m,
                              struct arena *a,
                              struct reconcile_input *ret_input)
{
    const struct consumer *c = m->consumer;
    *ret_input = (struct reconcile_input){
        .from = &m->progress,
        .target_epoch = c->target_epoch,
        .target = m->target,
        .owners = &c->owners,
        .holder = m,
    };
    if (c->epoch == c->target_epoch || m->metadata == NULL) {
        return true; /* It is of what members subscribe to now. */
    }
    struct partition_set unused;
    return split(m, a, &m->target, &ret_input->target, &unused) &&
           split(m, a, &m->progress.assigned, &unused, &ret_input->dropped);
}

bool consumer_is_any_free(const struct consumer_member *m)
{
    for (uint32_t i = 0; i < m->target.count; i++) {
        const struct held_partition *p = &m->target.items[i];
        if (partition_owners_find(&m->consumer->owners, &p->topic_id, p->partition) == NULL) {
            return true;
        }
    }
    return false;
}

static bool epochs_equal(const struct partition_set *a, const struct partition_set *b)
{
    return partition_set_size(a) == 0 || memcmp(a->items, b->items, partition_set_size(a)) == 0;
}

bool member_progress_equal(const struct member_progress *a, const struct member_progress *b)
{
    return a->epoch == b->epoch && a->previous_epoch == b->previous_epoch && a->state == b->state &&
           partition_set_equal(&a->assigned, &b->assigned) &&
           partition_set_equal(&a->pending, &b->pending) &&
           epochs_equal(&a->assigned, &b->assigned);
}
