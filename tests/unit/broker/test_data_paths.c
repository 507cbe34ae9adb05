/* Which lists of data directories are refused, also where nothing of them exists yet. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "broker/data_paths.h"

struct list {
    const char *a;
    const char *b;
    const char *why; /* A part of it; NULL: accepted. */
};

static const struct list lists[] = {
    {"no-such-a", "no-such-b", NULL},
    {"no-such-a", "no-such-ab", NULL},
    {"no-such/a", "no-such/b", NULL},
    {"/", "/no-such", "/no-such lies inside"},
    {"no-such-a", "no-such-a", "given twice"},
    {"no-such-a", "./no-such-a/", "given twice"},
    {"no-such-a", "no-such-a/../no-such-a/.", "given twice"},
    {"no-such/a", ".//no-such//a//", "given twice"},
    {"no-such-a", "no-such-a/b", "no-such-a/b lies inside of data directory no-such-a"},
    {"no-such-a/b", "no-such-a", "no-such-a/b lies inside of data directory no-such-a"},
    {"no-such-a", "no-such-a/b/c", "lies inside"},
    {"no-such-a", "/proc/self/cwd/no-such-a/b", "lies inside"},
    {".", "no-such/a/b", "lies inside"},
    {"no-such", "no-such/../other", NULL},
};

Test(data_paths, twice_or_nested_is_refused_before_anything_is_made)
{
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        const char *const paths[] = {lists[i].a, lists[i].b};
        char why[DATA_PATHS_WHY_SIZE] = "";
        const enum err e = data_paths_check(paths, 2, why);
        const bool is_refused = lists[i].why != NULL;
        cr_expect(eq(int, e, is_refused ? ERR_INVALID : ERR_OK),
                  "%s and %s: %s",
                  paths[0],
                  paths[1],
                  why);
        cr_expect(eq(int, !is_refused || strstr(why, lists[i].why) != NULL, 1),
                  "%s and %s: %s",
                  paths[0],
                  paths[1],
                  why);
    }
}
