/* coreflume topic: grow, alter, config. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_table.h"
#include "client/client.h"

enum {
    LEADERS_TIMEOUT_MS = 30000,
};

/* What became of it: a line, or an object. done: "altered". */
static int print_result(struct cli *cli, const struct client_topic_result *r, const char *done)
{
    const char *name = cli->operands[0];
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
        return cli_fail(cli, CLI_FAILED, "%s: %s", name, r->why);
    }
    (void)fprintf(cli->out, "%s %s\n", done, name);
    return CLI_OK;
}

/* ---- grow ---- */

int cli_topic_grow(struct cli *cli)
{
    const char *topic = cli->operands[0];
    if (!cli_has(cli, "partitions")) {
        return cli_fail(
            cli, CLI_USAGE, "'topic grow' needs -p N: how many partitions there are to be");
    }
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_topic_result result;
    enum err e =
        client_create_partitions(c, topic, (int32_t)cli_number(cli, "partitions", 0), &result);
    if (e == ERR_OK && result.err == ERR_OK) {
        e = client_wait_for_leaders(c, topic, LEADERS_TIMEOUT_MS);
    }
    code = e == ERR_OK ? print_result(cli, &result, "grown") : cli_client_fail(cli, c, e, topic);
    client_free(c);
    return code;
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
        return cli_fail(
            cli, CLI_USAGE, "'topic alter' needs an option to set (-c NAME=VALUE) or --reset NAME");
    }
    return CLI_OK;
}

int cli_topic_alter(struct cli *cli)
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
    if (code == CLI_OK) {
        enum err e = client_alter_topic_configs(c, cli->operands[0], changes, count, &result);
        code = e == ERR_OK ? print_result(cli, &result, "altered")
                           : cli_client_fail(cli, c, e, cli->operands[0]);
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
    case CLIENT_CONFIG_BROKER_DEFAULT:
    case CLIENT_CONFIG_BROKER_STATIC:
        return "broker";
    case CLIENT_CONFIG_DEFAULT:
        return "default";
    default:
        return "other";
    }
}

static int print_configs(struct cli *cli, const struct client_configs *configs)
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
        code =
            cli_print_json(cli, json_pack("{s:s, s:o}", "name", cli->operands[0], "configs", list));
    } else {
        cli_table_print(&table, cli->out);
    }
    cli_table_done(&table);
    return code;
}

int cli_topic_config(struct cli *cli)
{
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_configs *configs = NULL;
    enum err e = client_describe_topic_configs(c, cli->operands[0], &configs);
    code = e == ERR_OK ? print_configs(cli, configs) : cli_client_fail(cli, c, e, cli->operands[0]);
    client_configs_free(configs);
    client_free(c);
    return code;
}
