/* Intrusive doubly linked list with a sentinel head. O(1) insert and remove; owns nothing.
 *
 * A node that is on no list is linked to itself (list_init), so removing twice is harmless and
 * "is it queued?" is a question the node can answer.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct list {
    struct list *next;
    struct list *prev;
};

#define container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

#define list_for_each(node, head) \
    for (struct list *node = (head)->next; node != (head); node = node->next)

/* Safe against removal of the current node, not of its successor. */
#define list_for_each_safe(node, head)                                                \
    for (struct list *node = (head)->next, *node##_next = node->next; node != (head); \
         node = node##_next, node##_next = node->next)

static inline void list_init(struct list *l)
{
    l->next = l;
    l->prev = l;
}

static inline bool list_is_empty(const struct list *l)
{
    return l->next == l;
}

static inline void list_insert(struct list *prev, struct list *node)
{
    node->prev = prev;
    node->next = prev->next;
    prev->next->prev = node;
    prev->next = node;
}

static inline void list_push_back(struct list *head, struct list *node)
{
    list_insert(head->prev, node);
}

static inline void list_push_front(struct list *head, struct list *node)
{
    list_insert(head, node);
}

static inline void list_remove(struct list *node)
{
    node->prev->next = node->next;
    node->next->prev = node->prev;
    list_init(node);
}

/* NULL if empty. */
static inline struct list *list_pop_front(struct list *head)
{
    struct list *node = head->next;
    if (node == head) {
        return NULL;
    }
    list_remove(node);
    return node;
}

/* Moves all nodes of from to the end of to; from is empty afterwards. */
static inline void list_splice_back(struct list *to, struct list *from)
{
    if (list_is_empty(from)) {
        return;
    }
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}
