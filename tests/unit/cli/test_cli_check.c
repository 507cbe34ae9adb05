/* The rules of check, on machines made of files. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "cli/cli_check.h"

enum {
    PATH_SIZE = 512,
};

static char root[64];

static void setup(void)
{
    (void)snprintf(root, sizeof(root), "/tmp/test_cli_check.XXXXXX");
    cr_assert(mkdtemp(root) != NULL);
}

static void teardown(void)
{
    char command[PATH_SIZE];
    (void)snprintf(command, sizeof(command), "rm -rf %s", root);
    cr_assert(system(command) == 0);
}

TestSuite(cli_check, .init = setup, .fini = teardown);

/* A file below the root, with the directories above it. */
static void put(const char *path, const char *text)
{
    char full[PATH_SIZE];
    (void)snprintf(full, sizeof(full), "%s%s", root, path);
    for (char *slash = strchr(full + strlen(root) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(full, 0755);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    cr_assert(file != NULL, "%s", full);
    (void)fputs(text, file);
    (void)fclose(file);
}

struct row {
    const char *path;
    const char *text;
    const char *name;
    enum cli_check_status status;
    const char *value;
    const char *advice; /* A part of it; NULL: there is none. */
};

static const struct row rows[] = {
    {"/proc/sys/vm/swappiness", "60\n", "swappiness", CLI_CHECK_WARN, "60", "vm.swappiness=1"},
    {"/proc/sys/vm/swappiness", "1\n", "swappiness", CLI_CHECK_PASS, "1", NULL},
    {"/sys/kernel/mm/transparent_hugepage/enabled",
     "always madvise [never]\n",
     "huge pages",
     CLI_CHECK_WARN,
     "never",
     "madvise"},
    {"/sys/kernel/mm/transparent_hugepage/enabled",
     "always [madvise] never\n",
     "huge pages",
     CLI_CHECK_PASS,
     "madvise",
     NULL},
    {"/sys/devices/system/clocksource/clocksource0/current_clocksource",
     "hpet\n",
     "clock source",
     CLI_CHECK_WARN,
     "hpet",
     "clocksource=tsc"},
    {"/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
     "powersave\n",
     "CPU governor",
     CLI_CHECK_WARN,
     "powersave",
     "performance"},
    {"/proc/stat",
     "cpu  90 0 0 0 0 0 0 10 0 0\n",
     "stolen CPU",
     CLI_CHECK_WARN,
     "10.0 % since boot",
     "dedicated"},
    {"/proc/stat", "cpu  99 0 0 0 0 0 0 1 0 0\n", "stolen CPU", CLI_CHECK_PASS, "1.0 %", NULL},
    {"/proc/sys/net/core/somaxconn",
     "128\n",
     "listen backlog",
     CLI_CHECK_WARN,
     "128",
     "net.core.somaxconn=4096"},
    {"/proc/sys/net/core/somaxconn", "4096\n", "listen backlog", CLI_CHECK_PASS, "4096", NULL},
    {"/sys/dev/block/8:1/queue/scheduler",
     "[mq-deadline] none\n",
     "disk scheduler",
     CLI_CHECK_WARN,
     "mq-deadline",
     "echo none"},
    {"/sys/dev/block/8:1/queue/scheduler",
     "mq-deadline [none]\n",
     "disk scheduler",
     CLI_CHECK_PASS,
     "none",
     NULL},
    {"/sys/dev/block/8:1/queue/nomerges", "0\n", "disk merges", CLI_CHECK_WARN, "0", "echo 2"},
    {"/sys/dev/block/8:1/queue/write_cache",
     "write back\n",
     "write cache",
     CLI_CHECK_PASS,
     "write back",
     NULL},
};

static const struct cli_check_result *find(const struct cli_check *x, const char *name)
{
    for (size_t i = 0; i < x->results_count; i++) {
        if (strcmp(x->results[i].name, name) == 0) {
            return &x->results[i];
        }
    }
    return NULL;
}

Test(cli_check, rules)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct row *row = &rows[i];
        put(row->path, row->text);
        struct cli_check x = {.root = root};
        cli_check_files(&x, makedev(8, 1));
        const struct cli_check_result *r = find(&x, row->name);
        cr_assert(r != NULL, "%s", row->name);
        cr_assert(eq(int, (int)r->status, (int)row->status), "%s: %s", row->name, row->text);
        cr_assert(strstr(r->value, row->value) != NULL, "%s: %s", row->name, r->value);
        if (row->advice == NULL) {
            cr_assert(eq(int, r->advice[0], 0), "%s", row->name);
        } else {
            cr_assert(strstr(r->advice, row->advice) != NULL, "%s: %s", row->name, r->advice);
        }
    }
}

Test(cli_check, swappiness_is_nobodys_trouble_without_swap)
{
    put("/proc/sys/vm/swappiness", "60\n");
    put("/proc/swaps", "Filename Type Size Used Priority\n");
    struct cli_check x = {.root = root};
    cli_check_files(&x, 0);
    cr_assert(eq(int, (int)find(&x, "swappiness")->status, CLI_CHECK_PASS));
    put("/proc/swaps", "Filename Type Size Used Priority\n/dev/vdb partition 1 0 -2\n");
    x.results_count = 0;
    cli_check_files(&x, 0);
    cr_assert(eq(int, (int)find(&x, "swappiness")->status, CLI_CHECK_WARN));
}

/* A partition has no queue of its own: the disk's is one up. */
Test(cli_check, partition_of_a_disk)
{
    put("/sys/dev/block/queue/scheduler", "[none]\n");
    put("/sys/dev/block/8:1/partition", "1\n");
    struct cli_check x = {.root = root};
    cli_check_files(&x, makedev(8, 1));
    cr_assert(find(&x, "disk scheduler") != NULL);
}

/* Containers hide files: what cannot be seen is not judged. */
Test(cli_check, nothing_to_see_is_nothing_to_say)
{
    struct cli_check x = {.root = root};
    cli_check_files(&x, makedev(8, 1));
    cr_assert(eq(sz, x.results_count, 0));
}
