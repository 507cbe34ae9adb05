/* coreflume topic, coreflume broker: alter, config. */
#include "cli/cli_configs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_table.h"
#include "cli/cli_text.h"
#include "client/client.h"
#include "core/edit_distance.h"

enum {
    NAME_SIZE = 128, /* Longer than any option's. */
};

int cli_print_result(struct cli *cli,
                     struct client *c,
                     const char *name,
                     const struct client_topic_result *r,
                     const char *done)
{
    const bool is_ok = r->err == ERR_OK;
    if (cli_has(cli, "json")) {
        const int printed =
            cli_print_json(cli,
                           json_pack("{s:o, s:b, s:o}",
                                     "name",
                                     cli_json_slice(slice_of_string(name)),
                                     done,
                                     is_ok,
                                     "error",
                                     cli_json_slice(slice_of_string(is_ok ? NULL : r->why))));
        return is_ok ? printed : CLI_FAILED;
    }
    if (!is_ok) {
        return cli_result_fail(cli, c, name, r);
    }
    cli_put_line(cli->out, "%s %s", done, name);
    return CLI_OK;
}

/* ---- alter ---- */

/* NAME=VALUE of each -c, NAME of each --reset. Names are copies: they have to end at the '='. */
static int read_changes(struct cli *cli, struct client_config *changes, size_t *ret_count)
{
    for (int i = 0; i < cli->values_count; i++) {
        const struct cli_value *v = &cli->values[i];
        const bool is_set = strcmp(v->option->name, "config") == 0;
        if (!is_set && strcmp(v->option->name, "reset") != 0) {
            continue;
        }
        const size_t name_size = is_set ? strcspn(v->text, "=") : strlen(v->text);
        if (name_size == 0 || (is_set && v->text[name_size] == '\0')) {
            return cli_fail(cli,
                            CLI_USAGE,
                            "option '--%s': '%s' is not %s",
                            v->option->name,
                            v->text,
                            v->option->value);
        }
        char *name = strndup(v->text, name_size);
        if (name == NULL) {
            return cli_fail(cli, CLI_FAILED, "no memory");
        }
        changes[(*ret_count)++] = (struct client_config){
            .name = name,
            .value = is_set ? v->text + name_size + 1 : NULL,
        };
    }
    if (*ret_count == 0) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "'%s' needs an option to set (-c NAME=VALUE) or --reset NAME",
                        cli->command->name);
    }
    return CLI_OK;
}

/* The nearest name to one that is none of the options; NULL if it is one. */
static const struct client_config_entry *
nearest_option(const struct client_configs *configs, const char *name, size_t *ret_distance)
{
    const struct client_config_entry *nearest = NULL;
    *ret_distance = SIZE_MAX;
    for (size_t i = 0; i < configs->entries_count; i++) {
        const struct client_config_entry *o = &configs->entries[i];
        char text[NAME_SIZE];
        (void)snprintf(text, sizeof(text), "%.*s", (int)o->name.size, (const char *)o->name.data);
        const size_t distance = edit_distance(name, text);
        if (distance < *ret_distance) {
            *ret_distance = distance;
            nearest = o;
        }
    }
    return nearest;
}

/* The options that there are: of all brokers, those of one of them. */
static enum err describe_known(struct client *c,
                               const struct client_resource *resource,
                               struct client_configs **ret_configs)
{
    char id[NAME_SIZE] = "";
    struct client_resource asked = *resource;
    if (resource->kind == CLIENT_RESOURCE_BROKER && resource->name[0] == '\0') {
        const char *const no_topic = NULL;
        struct client_cluster *cluster = NULL;
        enum err e = client_describe(c, &no_topic, 0, &cluster);
        if (e != ERR_OK) {
            return e;
        }
        if (cluster->brokers_count > 0) {
            (void)snprintf(id, sizeof(id), "%" PRId32, cluster->brokers[0].id);
        }
        client_cluster_free(cluster);
        asked.name = id;
    }
    return client_describe_configs(c, &asked, ret_configs);
}

/* Kafka and we take the reset of an option that there is not, as there is nothing to reset, and of
 * brokers any option at all, as plugins may have theirs. Who made a slip would believe it done. */
static int check_names(struct cli *cli,
                       struct client *c,
                       const struct client_resource *resource,
                       const struct client_config *changes,
                       size_t count)
{
    const bool is_topic = resource->kind == CLIENT_RESOURCE_TOPIC;
    struct client_configs *configs = NULL;
    enum err e = describe_known(c, resource, &configs);
    int code = e == ERR_OK ? CLI_OK : cli_client_fail(cli, c, e, resource->name);
    for (size_t i = 0; i < count && code == CLI_OK; i++) {
        size_t distance = 0;
        const struct client_config_entry *o = nearest_option(configs, changes[i].name, &distance);
        const bool is_refused_there = is_topic && changes[i].value != NULL;
        if (o != NULL && distance > 0 && !is_refused_there) {
            code = cli_fail(cli,
                            CLI_FAILED,
                            "%s have no option '%s', did you mean '%.*s'?",
                            is_topic ? "topics" : "brokers",
                            changes[i].name,
                            (int)o->name.size,
                            (const char *)o->name.data);
        }
    }
    client_configs_free(configs);
    return code;
}

/* Everything of what is altered, whose label stands in what is printed. */
static int alter(struct cli *cli, const struct client_resource *resource, const char *label)
{
    struct client *c = NULL;
    struct client_topic_result result;
    size_t count = 0;
    struct client_config *changes = calloc((size_t)cli->values_count + 1, sizeof(*changes));
    if (changes == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    int code = read_changes(cli, changes, &count);
    if (code == CLI_OK) {
        code = cli_client_new(cli, &c);
    }
    if (code == CLI_OK && (resource->kind == CLIENT_RESOURCE_BROKER || cli_has(cli, "reset"))) {
        code = check_names(cli, c, resource, changes, count);
    }
    if (code == CLI_OK) {
        enum err e = client_alter_configs(c, resource, changes, count, &result);
        code = e == ERR_OK ? cli_print_result(cli, c, label, &result, "altered")
                           : cli_client_fail(cli, c, e, label);
    }
    client_free(c);
    for (size_t i = 0; i < count; i++) {
        free((char *)changes[i].name);
    }
    free(changes);
    return code;
}

/* ---- config ---- */

static const char *source_text(int8_t source)
{
    switch (source) {
    case CLIENT_CONFIG_TOPIC:
        return "topic";
    case CLIENT_CONFIG_BROKER:
        return "broker";
    case CLIENT_CONFIG_BROKER_DEFAULT:
        return "all brokers";
    case CLIENT_CONFIG_BROKER_STATIC:
        return "broker's start";
    case CLIENT_CONFIG_DEFAULT:
        return "default";
    default:
        return "other";
    }
}

static int print_configs(struct cli *cli, const char *label, const struct client_configs *configs)
{
    static const char *const heading[] = {"OPTION", "VALUE", "FROM"};
    const bool is_json = cli_has(cli, "json");
    json_t *list = is_json ? json_array() : NULL;
    struct cli_table table;
    cli_table_init(&table, 3, heading);
    for (size_t i = 0; i < configs->entries_count; i++) {
        const struct client_config_entry *o = &configs->entries[i];
        if (is_json) {
            (void)json_array_append_new(list,
                                        json_pack("{s:o, s:o, s:s}",
                                                  "name",
                                                  cli_json_slice(o->name),
                                                  "value",
                                                  cli_json_slice(o->value),
                                                  "source",
                                                  source_text(o->source)));
        } else {
            cli_table_cell(&table, "%.*s", (int)o->name.size, (const char *)o->name.data);
            cli_table_cell(&table, "%.*s", (int)o->value.size, (const char *)o->value.data);
            cli_table_cell(&table, "%s", source_text(o->source));
        }
    }
    int code = CLI_OK;
    if (is_json) {
        code = cli_print_json(cli, json_pack("{s:s, s:o}", "name", label, "configs", list));
    } else if (configs->entries_count == 0) {
        cli_put_line(cli->out, "nothing is set for %s", label);
    } else {
        cli_table_print(&table, cli->out);
    }
    cli_table_done(&table);
    return code;
}

static int describe(struct cli *cli, const struct client_resource *resource, const char *label)
{
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_configs *configs = NULL;
    enum err e = client_describe_configs(c, resource, &configs);
    code = e == ERR_OK ? print_configs(cli, label, configs) : cli_client_fail(cli, c, e, label);
    client_configs_free(configs);
    client_free(c);
    return code;
}

/* ---- of topics and brokers ---- */

static struct client_resource topic_of(const struct cli *cli)
{
    return (struct client_resource){CLIENT_RESOURCE_TOPIC, cli->operands[0]};
}

/* The one named, or all. */
static struct client_resource broker_of(const struct cli *cli)
{
    return (struct client_resource){CLIENT_RESOURCE_BROKER,
                                    cli->operands_count == 0 ? "" : cli->operands[0]};
}

static const char *label_of(const struct client_resource *broker)
{
    return broker->name[0] == '\0' ? "all brokers" : broker->name;
}

int cli_topic_alter(struct cli *cli)
{
    const struct client_resource topic = topic_of(cli);
    return alter(cli, &topic, topic.name);
}

int cli_topic_config(struct cli *cli)
{
    const struct client_resource topic = topic_of(cli);
    return describe(cli, &topic, topic.name);
}

int cli_broker_alter(struct cli *cli)
{
    const struct client_resource broker = broker_of(cli);
    return alter(cli, &broker, label_of(&broker));
}

int cli_broker_config(struct cli *cli)
{
    const struct client_resource broker = broker_of(cli);
    return describe(cli, &broker, label_of(&broker));
}
