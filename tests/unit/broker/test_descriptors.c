/* Descriptors are divided so that connections never take those of files. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "broker/descriptors.h"

static const struct descriptors_asked usual = {
    .limit = 1 << 20,
    .shards_count = 2,
    .listeners_count = 1,
    .dirs_count = 1,
    .conns_max = 50000,
    .files_max = 1024,
};

Test(descriptors, enough_for_all_changes_nothing)
{
    struct descriptors d;
    char why[DESCRIPTORS_WHY_SIZE];
    cr_assert(eq(int, descriptors_divide(&usual, &d, why), ERR_OK));
    cr_assert(eq(u32, d.conns_max, usual.conns_max));
    cr_assert(eq(u32, d.files_max, usual.files_max));
}

Test(descriptors, no_limit_is_enough)
{
    struct descriptors_asked asked = usual;
    asked.limit = UINT64_MAX;
    struct descriptors d;
    char why[DESCRIPTORS_WHY_SIZE];
    cr_assert(eq(int, descriptors_divide(&asked, &d, why), ERR_OK));
    cr_assert(eq(u32, d.conns_max, usual.conns_max));
}

/* Whatever the limit: refused with the number that would do, or all fit beside each other. */
Test(descriptors, all_fit_whatever_the_limit)
{
    uint64_t served_from = 0;
    for (uint16_t shards = 1; shards <= 64; shards *= 2) {
        served_from = 0;
        for (uint64_t limit = 0; limit < 20000; limit += 7) {
            struct descriptors_asked asked = usual;
            asked.limit = limit;
            asked.shards_count = shards;
            struct descriptors d;
            char why[DESCRIPTORS_WHY_SIZE] = "";
            enum err e = descriptors_divide(&asked, &d, why);
            if (e != ERR_OK) {
                cr_assert(eq(u64, served_from, 0), "served at %ju, refused at more", served_from);
                cr_assert(strstr(why, "ulimit -n") != NULL);
                continue;
            }
            served_from = served_from == 0 ? limit : served_from;
            cr_assert(ge(u32, d.conns_max, 16));
            cr_assert(ge(u32, d.files_max, 16));
            uint64_t used = (uint64_t)shards * (d.conns_max + 2 * d.files_max);
            cr_assert(lt(u64, used + 128, limit), "shards %d limit %ju", shards, limit);
        }
        cr_assert(ne(u64, served_from, 0), "%d shards are never served", shards);
    }
}
