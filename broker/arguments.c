#include "broker/arguments.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "broker/options.h"
#include "core/edit_distance.h"

const char ARGUMENTS_USAGE[] =
    "usage: coreflume start [OPTIONS]\n"
    "\n"
    "  --config FILE         YAML file of options, `name: value` each (docs/configuration.md)\n"
    "  --set NAME=VALUE      one option, may be repeated\n"
    "  --data-dir DIR        where the data lie (log.dirs; default ./data)\n"
    "  --kafka HOST:PORT     where Kafka clients are served (default 127.0.0.1:9092)\n"
    "  --advertise HOST:PORT what clients are told to connect to\n"
    "  --admin HOST:PORT     admin HTTP server (default 127.0.0.1:9644)\n"
    "  --node-id N           number of the node (default 1)\n"
    "  --rack NAME           where the node stands\n"
    "  --cores LIST          CPUs to run on: 0-3,6 (default: all)\n"
    "  --memory SIZE         memory for buffers: 512MiB (default: 256 MiB per core, at most a\n"
    "                        quarter of the machine's)\n"
    "  --options             all options that --config and --set take, as Markdown\n"
    "  --help                this text\n";

/* A flag is a short form of an option; prefix stands before its value. */
struct flag {
    const char *name;
    const char *option; /* NULL: one that is handled by its name. */
    const char *prefix; /* NULL: takes no value. */
};

static const struct flag flags[] = {
    {"--admin", OPTION_ADMIN_LISTENER, ""},
    {"--advertise", OPTION_ADVERTISED_LISTENERS, "PLAINTEXT://"},
    {"--config", NULL, ""},
    {"--cores", OPTION_CORES, ""},
    {"--data-dir", OPTION_DATA_DIRS, ""},
    {"--help", NULL, NULL},
    {"--kafka", OPTION_LISTENERS, "PLAINTEXT://"},
    {"--memory", OPTION_MEMORY, ""},
    {"--node-id", OPTION_NODE_ID, ""},
    {"--options", NULL, NULL},
    {"--rack", OPTION_RACK, ""},
    {"--set", NULL, ""},
};

enum {
    FLAGS_COUNT = sizeof(flags) / sizeof(flags[0]),
    NAME_SIZE_MAX = 32,
    SEEN_SIZE_MAX = 68,
};

/* One argument taken apart. */
struct argument {
    const struct flag *flag;
    char name[NAME_SIZE_MAX];
    const char *value; /* NULL if it takes none. */
};

static const struct flag *find_flag(const char *name)
{
    for (size_t i = 0; i < FLAGS_COUNT; i++) {
        if (strcmp(flags[i].name, name) == 0) {
            return &flags[i];
        }
    }
    return NULL;
}

static void say_unknown(const char *name, char why[ARGUMENTS_WHY_SIZE])
{
    if (strcmp(name, "--rpc") == 0 || strcmp(name, "--seeds") == 0) {
        (void)snprintf(why,
                       ARGUMENTS_WHY_SIZE,
                       "option '%s' is for clusters; this version runs one node: leave it out",
                       name);
        return;
    }
    char seen[SEEN_SIZE_MAX];
    const char *nearest = "";
    size_t distance_min = SIZE_MAX;
    for (size_t i = 0; i < FLAGS_COUNT; i++) {
        const size_t distance = edit_distance(name, flags[i].name);
        if (distance < distance_min) {
            distance_min = distance;
            nearest = flags[i].name;
        }
    }
    config_print_visibly(seen, sizeof(seen), name);
    (void)snprintf(
        why, ARGUMENTS_WHY_SIZE, "unknown option '%s', did you mean '%s'?", seen, nearest);
}

/* Takes the argument at *index, and the one behind it if that is its value. */
static enum err next_argument(int argc,
                              char *const *argv,
                              int *index,
                              struct argument *ret_argument,
                              char why[ARGUMENTS_WHY_SIZE])
{
    const char *text = argv[*index];
    const size_t name_size = strcspn(text, "=");
    const bool has_value = text[name_size] == '=';
    (void)snprintf(ret_argument->name, sizeof(ret_argument->name), "%.*s", (int)name_size, text);
    ret_argument->flag = find_flag(ret_argument->name);
    if (ret_argument->flag == NULL || name_size >= NAME_SIZE_MAX) {
        say_unknown(has_value ? ret_argument->name : text, why);
        return ERR_INVALID;
    }
    (*index)++;
    if (ret_argument->flag->prefix == NULL) {
        ret_argument->value = NULL;
        return ERR_OK;
    }
    if (has_value) {
        ret_argument->value = text + name_size + 1;
        return ERR_OK;
    }
    if (*index == argc) {
        (void)snprintf(why, ARGUMENTS_WHY_SIZE, "option '%s' needs a value", ret_argument->name);
        return ERR_INVALID;
    }
    ret_argument->value = argv[(*index)++];
    return ERR_OK;
}

/* --data-dir may be repeated: the list grows. */
static enum err set_option(struct config *config,
                           const struct argument *a,
                           bool is_repeated,
                           char why[ARGUMENTS_WHY_SIZE])
{
    char *value = NULL;
    const char *before = is_repeated ? config_text(config, a->flag->option) : "";
    if (asprintf(&value, "%s%s%s%s", before, is_repeated ? "," : "", a->flag->prefix, a->value) <
        0) {
        (void)snprintf(why, ARGUMENTS_WHY_SIZE, "out of memory");
        return ERR_BUSY;
    }
    enum err e = config_set(config, a->name, a->flag->option, value, why);
    free(value);
    return e;
}

/* One pass: either only --config counts, or all but it. */
static enum err read_pass(struct config *config,
                          int argc,
                          char *const *argv,
                          bool is_file_pass,
                          char why[ARGUMENTS_WHY_SIZE])
{
    bool has_data_dir = false;
    for (int i = 1; i < argc;) {
        struct argument a;
        enum err e = next_argument(argc, argv, &i, &a, why);
        if (e != ERR_OK) {
            return e;
        }
        const bool is_file = strcmp(a.name, "--config") == 0;
        if (is_file != is_file_pass) {
            continue;
        }
        if (is_file) {
            e = config_load_file(config, a.value, why);
        } else if (a.flag->option == NULL) {
            e = config_set_pair(config, a.value, why);
        } else {
            const bool is_data_dir = strcmp(a.flag->option, OPTION_DATA_DIRS) == 0;
            e = set_option(config, &a, is_data_dir && has_data_dir, why);
            has_data_dir |= is_data_dir;
        }
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

/* --help and the like win over everything, but not over wrong usage. */
static enum err find_action(int argc,
                            char *const *argv,
                            enum arguments_action *ret_action,
                            char why[ARGUMENTS_WHY_SIZE])
{
    enum arguments_action action = ARGUMENTS_START;
    for (int i = 1; i < argc;) {
        struct argument a;
        enum err e = next_argument(argc, argv, &i, &a, why);
        if (e != ERR_OK) {
            return e;
        }
        if (a.value == NULL) {
            action = strcmp(a.name, "--help") == 0 ? ARGUMENTS_HELP : ARGUMENTS_OPTIONS;
        }
    }
    *ret_action = action;
    return ERR_OK;
}

enum err arguments_read(struct config *config,
                        int argc,
                        char *const *argv,
                        enum arguments_action *ret_action,
                        char why[ARGUMENTS_WHY_SIZE])
{
    enum err e = find_action(argc, argv, ret_action, why);
    if (e != ERR_OK || *ret_action != ARGUMENTS_START) {
        return e;
    }
    e = read_pass(config, argc, argv, true, why);
    return e == ERR_OK ? read_pass(config, argc, argv, false, why) : e;
}
