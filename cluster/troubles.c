#include "cluster/troubles.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cluster/cluster_priv.h"
#include "core/assert.h"

/* On its way to shard 0 and home. */
struct note {
    struct xmsg msg;
    struct xmsg_hop route[2];
    struct cluster *reader;
    struct trouble trouble;
};

static struct trouble *find(struct troubles *t, const struct partition_id *id)
{
    for (uint32_t i = 0; i < t->known_count; i++) {
        if (partition_id_equal(&t->known[i].id, id)) {
            return &t->known[i];
        }
    }
    return NULL;
}

/* Deleted topics take their troubles along, and a failed directory is one trouble for all that
 * failed in it, also before its first flush told so. */
static bool is_over(const struct cluster *c, const struct trouble *trouble)
{
    const struct topic *t = metadata_topic_by_id(c->metadata, &trouble->id.topic_id);
    return t == NULL || (trouble->kind != TROUBLE_DAMAGED &&
                         cluster_dirs_has_failed(c, topic_directory(t, trouble->id.partition)));
}

/* Whose name was only counted cannot be told apart. */
static void forget_what_is_over(struct cluster *c)
{
    struct troubles *t = &c->troubles;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->known_count; i++) {
        if (!is_over(c, &t->known[i])) {
            t->known[kept++] = t->known[i];
        }
    }
    t->known_count = kept;
}

static void take(struct cluster *c, const struct trouble *trouble)
{
    struct troubles *t = &c->troubles;
    struct trouble *known = find(t, &trouble->id);
    if (known != NULL) {
        known->kind = trouble->kind;
        return;
    }
    if (t->known_count == TROUBLES_MAX && c->metadata != NULL) {
        forget_what_is_over(c);
    }
    const bool was_counted = trouble->kind == TROUBLE_WORSE && t->more_count > 0;
    if (t->known_count < TROUBLES_MAX) {
        t->known[t->known_count++] = *trouble;
        t->more_count -= was_counted;
    } else {
        t->more_count += !was_counted;
    }
}

static void on_told(struct shard *here, struct xmsg *m)
{
    const struct note *note = container_of(m, struct note, msg);
    take(note->reader, &note->trouble);
    xmsg_forward(here, m);
}

static void on_home(struct shard *here, struct xmsg *m)
{
    (void)here;
    free(container_of(m, struct note, msg));
}

void troubles_tell(struct cluster *c,
                   const struct partition_id *id,
                   const char *name,
                   enum trouble_kind kind)
{
    struct note *note = c->is_stopping ? NULL : calloc(1, sizeof(*note));
    if (note == NULL) {
        return; /* Who stops is asked no more. */
    }
    note->reader = c->set->clusters[0];
    note->trouble.id = *id;
    note->trouble.kind = kind;
    (void)snprintf(note->trouble.name, sizeof(note->trouble.name), "%s", name);
    note->route[0] = (struct xmsg_hop){.shard = 0, .run = on_told};
    note->route[1] = (struct xmsg_hop){.shard = c->s->id, .run = on_home};
    note->msg.next_hop = note->route;
    xmsg_send(c->s, &note->msg);
}

uint32_t
troubles_list(struct cluster *c, struct cluster_problem *ret, uint32_t count, uint32_t count_max)
{
    assert_cmp(c->s->id, ==, 0);
    struct troubles *t = &c->troubles;
    forget_what_is_over(c);
    for (uint32_t i = 0; i < t->known_count && count < count_max; i++) {
        const struct trouble *trouble = &t->known[i];
        const bool is_failed = trouble->kind != TROUBLE_DAMAGED;
        ret[count++] = (struct cluster_problem){
            .code = is_failed ? "partition_failed" : "partition_damaged",
            .subject = trouble->name,
            .action =
                is_failed
                    ? "it is not served: see its lines in the log and the kernel's log, "
                      "repair the disk, then restart"
                    : "some of its records are damaged, the others are served: its lines "
                      "log_damaged and log_read_corrupt in the log name file and position; put "
                      "its files back from a copy, or stop the node and see 'coreflume help log "
                      "repair'",
        };
    }
    if (t->more_count > 0 && count < count_max) {
        (void)snprintf(
            t->more_text, sizeof(t->more_text), "%" PRIu32 " more partitions", t->more_count);
        ret[count++] = (struct cluster_problem){
            .code = "partitions_failed",
            .subject = t->more_text,
            .action = "grep the log for partition_failed, partition_open_failed and log_damaged",
        };
    }
    return count;
}
