/* Intrusive lists: order, removal in the middle of a walk, splicing. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "core/list.h"

struct item {
    int number;
    struct list link;
};

static int digits_of(const struct list *head)
{
    int digits = 0;
    list_for_each (node, head) {
        digits = digits * 10 + container_of(node, struct item, link)->number;
    }
    return digits;
}

Test(list, order_and_removal)
{
    struct list head;
    struct list other;
    struct item items[5];
    list_init(&head);
    list_init(&other);
    cr_assert(eq(ptr, list_pop_front(&head), NULL));
    for (int i = 0; i < 5; i++) {
        items[i].number = i + 1;
        list_push_back(&head, &items[i].link);
    }
    cr_assert(eq(int, digits_of(&head), 12345));
    list_for_each_safe (node, &head) {
        if (container_of(node, struct item, link)->number % 2 == 0) {
            list_remove(node);
            cr_assert(list_is_empty(node));
            list_push_front(&other, node);
        }
    }
    cr_assert(eq(int, digits_of(&head), 135));
    cr_assert(eq(int, digits_of(&other), 42));
    list_splice_back(&head, &other);
    cr_assert(eq(int, digits_of(&head), 13542));
    cr_assert(list_is_empty(&other));
    list_splice_back(&head, &other);
    list_remove(&items[4].link);
    list_remove(&items[4].link); /* Harmless. */
    cr_assert(eq(int, digits_of(&head), 1342));
}
