/* The stories in tests/scenarios/groups: each is run, and must come out as it stands there.
 * REWRITE=1 writes them anew: look at the difference before you keep it. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/groups/consumer_script.h"

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "r");
    cr_assert(f != NULL, "%s", path);
    cr_assert(eq(int, fseek(f, 0, SEEK_END), 0));
    const size_t size = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(size + 1, 1);
    cr_assert(text != NULL);
    cr_assert(eq(sz, fread(text, 1, size, f), size));
    (void)fclose(f);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    cr_assert(f != NULL, "%s", path);
    (void)fputs(text, f);
    (void)fclose(f);
}

static void run(const char *name)
{
    char path[1024];
    (void)snprintf(path, sizeof(path), "%s/%s.txt", SCENARIOS_DIR, name);
    char *expected = read_file(path);
    char *actual = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&actual, &size);
    cr_assert(out != NULL);
    consumer_script_run(expected, out);
    (void)fclose(out);
    if (getenv("REWRITE") != NULL) {
        write_file(path, actual);
    } else {
        cr_assert(eq(str, actual, expected), "%s", path);
    }
    free(actual);
    free(expected);
}

Test(consumer_scenarios, join)
{
    run("consumer_join");
}

Test(consumer_scenarios, errors)
{
    run("consumer_errors");
}

Test(consumer_scenarios, handover)
{
    run("consumer_handover");
}

Test(consumer_scenarios, static_members)
{
    run("consumer_static");
}

Test(consumer_scenarios, timeouts)
{
    run("consumer_timeouts");
}

Test(consumer_scenarios, topics)
{
    run("consumer_topics");
}

Test(consumer_scenarios, regex)
{
    run("consumer_regex");
}

Test(consumer_scenarios, migration)
{
    run("consumer_migration");
}

Test(consumer_scenarios, two_owners)
{
    run("consumer_two_owners");
}

Test(consumer_scenarios, held_back)
{
    run("consumer_held_back");
}

Test(consumer_scenarios, downgrade)
{
    run("consumer_downgrade");
}
