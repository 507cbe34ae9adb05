#include "cluster/dir_hints.h"

#include <stdlib.h>

#include "cluster/cluster_priv.h"
#include "cluster/memory.h"
#include "cluster/shard_dir.h"
#include "core/assert.h"
#include "core/reached.h"
#include "core/shard.h"

/* On the other shard, which may have closed its directories already. */
static void arrive(struct shard *here, struct xmsg *m)
{
    const struct dir_hint *hint = container_of(m, struct dir_hint, msg);
    const struct shard_dir *from = hint->hints->dir;
    const struct cluster *sender = from->owner->context;
    const struct cluster *c = sender->set->clusters[here->id];
    for (uint32_t i = 0; i < c->dirs_count; i++) {
        const struct shard_dir *dir = &c->dirs[i];
        if (dir->log_env.shared != NULL && dir->settings->device_id == from->settings->device_id) {
            log_shared_others_write(dir->log_env.shared);
            reached(here, "dir_hint_arrives");
        }
    }
    xmsg_forward(here, m);
}

static void come_home(struct shard *here, struct xmsg *m)
{
    struct dir_hint *hint = container_of(m, struct dir_hint, msg);
    (void)here;
    assert_cmp(hint->hints->away_count, >, 0);
    hint->hints->away_count--;
    hint->is_away = false;
}

static void on_writing(void *context)
{
    struct dir_hints *h = context;
    struct shard *s = h->dir->s;
    for (uint16_t i = 0; i < h->count; i++) {
        struct dir_hint *hint = &h->all[i];
        if (i == s->id || hint->is_away) {
            continue;
        }
        hint->hints = h;
        hint->is_away = true;
        hint->route[0] = (struct xmsg_hop){.shard = i, .run = arrive};
        hint->route[1] = (struct xmsg_hop){.shard = s->id, .run = come_home};
        hint->msg.next_hop = hint->route;
        h->away_count++;
        xmsg_send(s, &hint->msg);
    }
}

void dir_hints_start(struct dir_hints *h, struct shard_dir *dir)
{
    h->dir = dir;
    h->count = dir->s->shards_count;
    h->all = memory_alloc_array(h->count, sizeof(*h->all));
    log_shared_on_writing(dir->log_env.shared, h, on_writing);
}

void dir_hints_done(struct dir_hints *h)
{
    assert_cmp(h->away_count, ==, 0);
    free(h->all);
    h->all = NULL;
}
