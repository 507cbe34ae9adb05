/* Tail pages: an image of the end of the log in memory. A page is filled by appends, written to the
 * disk in block-aligned parts, and stays as cache until the budget wants it back.
 */
#include <stdlib.h>

#include "storage/log_priv.h"

struct log_page *log_page_new(struct log_segment *seg, uint64_t pos, uint64_t size)
{
    assert_cmp(pos % ENTRY_BLOCK_SIZE, ==, 0);
    struct log *l = seg->log;
    struct log_page *pg = calloc(1, sizeof(*pg));
    if (pg == NULL) {
        return NULL;
    }
    size = block_align_up(size);
    struct log_shared *ls = l->env.shared;
    pg->buf = log_shared_alloc(ls, size > l->page_size ? size : l->page_size, BUF_RESERVED);
    if (pg->buf == NULL && size < l->page_size) {
        pg->buf = log_shared_alloc(ls, size, BUF_RESERVED);
    }
    if (pg->buf == NULL) {
        free(pg);
        return NULL;
    }
    pg->segment = seg;
    pg->pos = pos;
    pg->created_us = log_shard(l)->now_us;
    list_init(&pg->cache_link);
    list_push_back(&l->pages, &pg->link);
    return pg;
}

void log_page_free(struct log_page *pg)
{
    if (pg->is_dirty) {
        segment_file_unuse(pg->segment);
    }
    if (!list_is_empty(&pg->cache_link)) {
        pg->segment->log->env.shared->stats.cache_used_size -= pg->buf->capacity;
        list_remove(&pg->cache_link);
    }
    list_remove(&pg->link);
    buf_unref(pg->buf);
    free(pg);
}

void log_page_set_dirty(struct log_page *pg)
{
    if (pg->is_dirty) {
        return;
    }
    pg->is_dirty = true;
    if (!list_is_empty(&pg->cache_link)) {
        pg->segment->log->env.shared->stats.cache_used_size -= pg->buf->capacity;
        list_remove(&pg->cache_link);
    }
    segment_file_use(pg->segment);
}

void log_page_set_clean(struct log_page *pg)
{
    assert(pg->is_dirty);
    assert_cmp(pg->used, ==, pg->taken);
    struct log_shared *ls = pg->segment->log->env.shared;
    pg->is_dirty = false;
    segment_file_unuse(pg->segment);
    list_push_back(&ls->cache, &pg->cache_link);
    ls->stats.cache_used_size += pg->buf->capacity;
    if (ls->stats.cache_used_size > ls->options.cache_size_max) {
        (void)log_shared_evict(ls, ls->stats.cache_used_size - ls->options.cache_size_max);
    }
    log_shared_reclaim_soon(ls);
}

struct log_page *log_page_find_above(const struct log_segment *seg, uint64_t pos)
{
    const struct log *l = seg->log;
    struct log_page *found = NULL;
    /* From the end: nearly all readers are there. */
    for (struct list *n = l->pages.prev; n != &l->pages; n = n->prev) {
        struct log_page *pg = container_of(n, struct log_page, link);
        if (pg->segment->base.index < seg->base.index) {
            break;
        }
        if (pg->segment == seg) {
            if (pg->pos + pg->used <= pos) {
                break;
            }
            found = pg;
        }
    }
    return found;
}

struct log_page *log_page_find(const struct log_segment *seg, uint64_t pos)
{
    struct log_page *pg = log_page_find_above(seg, pos);
    return pg != NULL && pg->pos <= pos ? pg : NULL;
}
