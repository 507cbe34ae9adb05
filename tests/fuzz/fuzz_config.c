/* What an operator writes: the configuration file and the command line of `coreflume start`. The
 * first byte chooses: even, the text of a file; odd, arguments, one a line. What is accepted
 * becomes settings of a broker.
 *
 * What is refused is explained in one line, and of a file that is refused nothing counts.
 */
#include <stdlib.h>
#include <string.h>

#include "broker/arguments.h"
#include "broker/options.h"
#include "broker/settings.h"
#include "core/assert.h"
#include "core/config.h"

#include "tests/fuzz/fuzz.h"

enum {
    ARGUMENTS_MAX = 32,
    SHARDS_COUNT = 3,
    ITEM_SIZE = 64,
};

static void expect_one_line(const char *why)
{
    assert(strlen(why) > 0);
    for (const char *at = why; *at != '\0'; at++) {
        assert((unsigned char)*at >= ' ');
        assert((unsigned char)*at != 0x7f);
    }
}

static void expect_defaults(const struct config *c)
{
    const struct config_table *t = config_table_of(c);
    for (size_t i = 0; i < t->count; i++) {
        assert(strcmp(config_origin(c, t->options[i].name), "default") == 0);
    }
}

/* Every value can be read as what its option is. */
static void read_all(const struct config *c)
{
    const struct config_table *t = config_table_of(c);
    for (size_t i = 0; i < t->count; i++) {
        const struct config_option *o = &t->options[i];
        assert(config_text(c, o->name) != NULL);
        if (o->type == CONFIG_LIST) {
            const size_t count = config_list_count(c, o->name);
            char item[ITEM_SIZE];
            for (size_t j = 0; j < count; j++) {
                assert(config_list_item(c, o->name, j, item, sizeof(item)));
            }
            assert(!config_list_item(c, o->name, count, item, sizeof(item)));
        } else if (o->type == CONFIG_BOOL) {
            (void)config_bool(c, o->name);
        } else if (o->type != CONFIG_STRING && o->min < o->max) {
            const int64_t number = config_number(c, o->name);
            const bool is_unset = config_text(c, o->name)[0] == '\0';
            assert(is_unset || number >= o->min);
            assert(is_unset || number <= o->max);
        }
    }
}

static void make_settings(const struct config *c)
{
    struct broker_settings settings;
    char why[SETTINGS_WHY_SIZE];
    const enum err e = settings_from_config(&settings, c, SHARDS_COUNT, why);
    if (e == ERR_OK) {
        assert_cmp(settings.listeners_count, >, 0);
        assert_cmp(settings.listeners_count, <=, LISTENERS_MAX);
        assert_cmp(settings.data_dirs_count, <=, CLUSTER_DATA_DIRS_MAX);
        settings_done(&settings);
    } else {
        expect_one_line(why);
    }
}

static void try_file(struct config *c, const uint8_t *data, size_t size)
{
    char why[CONFIG_WHY_SIZE] = "";
    const enum err e = config_load_text(c, "file", (const char *)data, size, why);
    if (e == ERR_OK) {
        read_all(c);
        make_settings(c);
    } else {
        expect_one_line(why);
        expect_defaults(c);
    }
}

/* --config would read what the input names. */
static void try_arguments(struct config *c, const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    assert(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    char *argv[ARGUMENTS_MAX] = {(char[]){"start"}};
    int argc = 1;
    for (char *at = text; at != NULL && argc < ARGUMENTS_MAX;) {
        char *next = strchr(at, '\n');
        if (next != NULL) {
            *next++ = '\0';
        }
        if (strncmp(at, "--config", strlen("--config")) != 0) {
            argv[argc++] = at;
        }
        at = next;
    }
    char why[ARGUMENTS_WHY_SIZE] = "";
    enum arguments_action action = ARGUMENTS_START;
    const enum err e = arguments_read(c, argc, argv, &action, why);
    if (e != ERR_OK) {
        expect_one_line(why);
    } else if (action == ARGUMENTS_START) {
        read_all(c);
        make_settings(c);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config_table *table; /* Made once: it never changes. */
    if (table == NULL && options_new(&table) != ERR_OK) {
        return 0;
    }
    struct config *c = NULL;
    if (size == 0 || config_new(table, &c) != ERR_OK) {
        return 0;
    }
    if (data[0] % 2 == 0) {
        try_file(c, data + 1, size - 1);
    } else {
        try_arguments(c, data + 1, size - 1);
    }
    config_free(c);
    return 0;
}
