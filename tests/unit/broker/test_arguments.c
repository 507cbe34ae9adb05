/* The command line: what each form means, and what is refused with which words. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "broker/arguments.h"
#include "broker/options.h"

enum { ARGC_MAX = 12 };

struct fixture {
    struct config_table *table;
    struct config *config;
    enum arguments_action action;
    char why[ARGUMENTS_WHY_SIZE];
};

static enum err read(struct fixture *f, const char *const *words)
{
    char *argv[ARGC_MAX] = {(char *)"start"};
    int argc = 1;
    while (words[argc - 1] != NULL) {
        argv[argc] = (char *)words[argc - 1];
        argc++;
    }
    *f = (struct fixture){0};
    cr_assert(eq(int, options_new(&f->table), ERR_OK));
    cr_assert(eq(int, config_new(f->table, &f->config), ERR_OK));
    return arguments_read(f->config, argc, argv, &f->action, f->why);
}

static void done(struct fixture *f)
{
    config_free(f->config);
    options_free(f->table);
}

/* config_new asserts that every default obeys its own row. */
Test(options, every_default_is_valid_and_no_name_is_twice)
{
    struct fixture f;
    cr_assert(eq(int, read(&f, (const char *const[]){NULL}), ERR_OK));
    for (size_t i = 1; i < f.table->count; i++) {
        cr_assert(lt(int, strcmp(f.table->options[i - 1].name, f.table->options[i].name), 0));
        const char *doc = f.table->options[i].doc;
        cr_assert(eq(chr, doc[strlen(doc) - 1], '.'));
    }
    done(&f);
}

Test(arguments, forms)
{
    static const struct {
        const char *words[6];
        const char *option;
        const char *value;
    } rows[] = {
        {{"--node-id", "7", NULL}, OPTION_NODE_ID, "7"},
        {{"--node-id=7", NULL}, OPTION_NODE_ID, "7"},
        {{"--kafka", "h:1", NULL}, OPTION_LISTENERS, "PLAINTEXT://h:1"},
        {{"--advertise", "h:1", NULL}, OPTION_ADVERTISED_LISTENERS, "PLAINTEXT://h:1"},
        {{"--data-dir", "a", "--data-dir", "b", NULL}, OPTION_DATA_DIRS, "a,b"},
        {{"--set", "node.id=3", "--node-id", "4", NULL}, OPTION_NODE_ID, "4"},
        {{"--node-id", "4", "--set", "node.id=3", NULL}, OPTION_NODE_ID, "3"},
        {{"--memory", "1GiB", NULL}, OPTION_MEMORY, "1GiB"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        cr_assert(eq(int, read(&f, rows[i].words), ERR_OK), "row %zu: %s", i, f.why);
        cr_assert(eq(int, f.action, ARGUMENTS_START));
        cr_assert(eq(str, (char *)config_text(f.config, rows[i].option), (char *)rows[i].value));
        done(&f);
    }
}

Test(arguments, refusals)
{
    static const struct {
        const char *words[4];
        enum err e;
        const char *text;
    } rows[] = {
        {{"--knode-id", "7", NULL}, ERR_INVALID, "'--node-id'"},
        {{"--datadir=x", NULL}, ERR_INVALID, "'--data-dir'"},
        {{"--node-id", NULL}, ERR_INVALID, "needs a value"},
        {{"stray", NULL}, ERR_INVALID, "stray"},
        {{"--rpc", "h:1", NULL}, ERR_INVALID, "one node"},
        {{"--set", "node.idd=7", NULL}, ERR_CONFIG_INVALID, "'node.id'"},
        {{"--set", "node.id", NULL}, ERR_CONFIG_INVALID, "node.id"},
        {{"--node-id", "seven", NULL}, ERR_CONFIG_INVALID, "seven"},
        {{"--config", "/nowhere/x.yaml", NULL}, ERR_NOT_FOUND, "/nowhere/x.yaml"},
        {{"--help", "--wrong", NULL}, ERR_INVALID, "--wrong"},
        {{"\r--set\n", NULL}, ERR_INVALID, "'\\x0d--set\\x0a'"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct fixture f;
        cr_assert(eq(int, read(&f, rows[i].words), rows[i].e), "row %zu: %s", i, f.why);
        cr_assert(strstr(f.why, rows[i].text) != NULL, "row %zu: %s", i, f.why);
        cr_assert(strchr(f.why, '\n') == NULL);
        done(&f);
    }
}

Test(arguments, asking_for_text_wins)
{
    struct fixture f;
    cr_assert(eq(int, read(&f, (const char *const[]){"--node-id", "x", "--help", NULL}), ERR_OK));
    cr_assert(eq(int, f.action, ARGUMENTS_HELP));
    done(&f);
    cr_assert(eq(int, read(&f, (const char *const[]){"--options", NULL}), ERR_OK));
    cr_assert(eq(int, f.action, ARGUMENTS_OPTIONS));
    done(&f);
}
