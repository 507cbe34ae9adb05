/* coreflume topic: create, list, describe, delete. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_configs.h"
#include "cli/cli_parse.h"
#include "cli/cli_table.h"
#include "cli/cli_text.h"
#include "client/client.h"
#include "core/assert.h"
#include "core/ids.h"

enum {
    LEADERS_TIMEOUT_MS = 30000,
    IDS_TEXT_SIZE = 128,
};

/* ---- create ---- */

int cli_read_configs(struct cli *cli, struct client_config *configs, size_t *ret_count)
{
    size_t count = 0;
    for (int i = 0; i < cli->values_count; i++) {
        const struct cli_value *v = &cli->values[i];
        if (strcmp(v->option->name, "config") != 0) {
            continue;
        }
        const char *equals = strchr(v->text, '=');
        if (equals == NULL || equals == v->text) {
            return cli_fail(cli, CLI_USAGE, "option '--config': '%s' is not NAME=VALUE", v->text);
        }
        char *name = strndup(v->text, (size_t)(equals - v->text));
        if (name == NULL) {
            return cli_fail(cli, CLI_FAILED, "no memory");
        }
        configs[count++] = (struct client_config){.name = name, .value = equals + 1};
        *ret_count = count;
    }
    return CLI_OK;
}

void cli_free_configs(struct client_config *configs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)configs[i].name);
    }
    free(configs);
}

/* What became of each topic: a line each, or all in one object. done: "created". */
static int print_results(struct cli *cli,
                         struct client *c,
                         const struct client_topic_result *results,
                         const char *done)
{
    const bool is_json = cli_has(cli, "json");
    json_t *list = is_json ? json_array() : NULL;
    int code = CLI_OK;
    for (int i = 0; i < cli->operands_count; i++) {
        const struct client_topic_result *r = &results[i];
        const char *name = cli->operands[i];
        const bool is_ok = r->err == ERR_OK;
        code = is_ok ? code : CLI_FAILED;
        if (is_json) {
            (void)json_array_append_new(
                list,
                json_pack("{s:o, s:b, s:o}",
                          "name",
                          cli_json_slice(slice_of_string(name)),
                          done,
                          is_ok,
                          "error",
                          cli_json_slice(slice_of_string(is_ok ? NULL : r->why))));
        } else if (is_ok) {
            cli_put_line(cli->out, "%s %s", done, name);
        } else {
            (void)cli_result_fail(cli, c, name, r);
        }
    }
    if (is_json) {
        const int printed = cli_print_json(cli, json_pack("{s:o}", "topics", list));
        code = printed != CLI_OK ? printed : code;
    }
    return code;
}

static int create_all(struct cli *cli,
                      struct client *c,
                      const struct client_new_topic *topics,
                      struct client_topic_result *results)
{
    const size_t count = (size_t)cli->operands_count;
    enum err e = client_create_topics(c, topics, count, results);
    if (e != ERR_OK) {
        return cli_client_fail(cli, c, e, NULL);
    }
    for (size_t i = 0; i < count; i++) {
        if (results[i].err != ERR_OK) {
            continue;
        }
        e = client_wait_for_leaders(c, topics[i].name, LEADERS_TIMEOUT_MS);
        if (e != ERR_OK) {
            results[i].err = e;
            (void)snprintf(results[i].why, CLIENT_WHY_SIZE, "created, but %.400s", client_why(c));
        }
    }
    return print_results(cli, c, results, "created");
}

/* Brokers refuse each of the two, and do the rest. */
static int refuse_twice(struct cli *cli)
{
    for (int i = 0; i < cli->operands_count; i++) {
        for (int j = 0; j < i; j++) {
            if (strcmp(cli->operands[i], cli->operands[j]) == 0) {
                return cli_fail(cli, CLI_USAGE, "'%s' stands there twice", cli->operands[i]);
            }
        }
    }
    return CLI_OK;
}

int cli_topic_create(struct cli *cli)
{
    if (refuse_twice(cli) != CLI_OK) {
        return CLI_USAGE;
    }
    const size_t count = (size_t)cli->operands_count;
    struct client *c = NULL;
    size_t configs_count = 0;
    struct client_config *configs = calloc((size_t)cli->values_count + 1, sizeof(*configs));
    struct client_new_topic *topics = calloc(count, sizeof(*topics));
    struct client_topic_result *results = calloc(count, sizeof(*results));
    int code = CLI_FAILED;
    if (configs == NULL || topics == NULL || results == NULL) {
        code = cli_fail(cli, CLI_FAILED, "no memory");
        goto out_free;
    }
    code = cli_read_configs(cli, configs, &configs_count);
    if (code == CLI_OK) {
        code = cli_client_new(cli, &c);
    }
    if (code != CLI_OK) {
        goto out_free;
    }
    for (size_t i = 0; i < count; i++) {
        topics[i] = (struct client_new_topic){
            .name = cli->operands[i],
            .partitions_count = (int32_t)cli_number(cli, "partitions", -1),
            .replication_factor = (int16_t)cli_number(cli, "replicas", -1),
            .configs = configs,
            .configs_count = configs_count,
        };
    }
    code = create_all(cli, c, topics, results);

out_free:
    client_free(c);
    cli_free_configs(configs, configs_count);
    free(topics);
    free(results);
    return code;
}

/* ---- delete ---- */

int cli_topic_delete(struct cli *cli)
{
    if (refuse_twice(cli) != CLI_OK) {
        return CLI_USAGE;
    }
    const size_t count = (size_t)cli->operands_count;
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_topic_result *results = calloc(count, sizeof(*results));
    if (results == NULL) {
        client_free(c);
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    enum err e = client_delete_topics(c, cli->operands, count, results);
    code =
        e == ERR_OK ? print_results(cli, c, results, "deleted") : cli_client_fail(cli, c, e, NULL);
    free(results);
    client_free(c);
    return code;
}

/* ---- list ---- */

static size_t replication_of(const struct client_topic_info *t)
{
    return t->partitions_count == 0 ? 0 : t->partitions[0].replicas_count;
}

static json_t *topic_json(const struct client_topic_info *t)
{
    char id[UUID_TEXT_SIZE];
    uuid_format(&t->id, id);
    return json_pack("{s:o, s:s, s:I, s:I, s:b}",
                     "name",
                     cli_json_slice(t->name),
                     "id",
                     id,
                     "partitions",
                     (json_int_t)t->partitions_count,
                     "replication_factor",
                     (json_int_t)replication_of(t),
                     "internal",
                     t->is_internal);
}

static int print_topics_json(struct cli *cli, const struct client_cluster *cluster)
{
    json_t *list = json_array();
    for (size_t i = 0; i < cluster->topics_count; i++) {
        (void)json_array_append_new(list, topic_json(&cluster->topics[i]));
    }
    return cli_print_json(cli, json_pack("{s:o}", "topics", list));
}

static void print_topics(struct cli *cli, const struct client_cluster *cluster)
{
    static const char *const heading[] = {"NAME", "PARTITIONS", "REPLICAS", ""};
    if (cluster->topics_count == 0) {
        (void)fputs("no topics: make one with: coreflume topic create NAME\n", cli->out);
        return;
    }
    struct cli_table table;
    cli_table_init(&table, 4, heading);
    for (size_t i = 0; i < cluster->topics_count; i++) {
        const struct client_topic_info *t = &cluster->topics[i];
        cli_table_cell(&table, "%.*s", (int)t->name.size, (const char *)t->name.data);
        cli_table_cell(&table, "%zu", t->partitions_count);
        cli_table_cell(&table, "%zu", replication_of(t));
        cli_table_cell(&table, "%s", t->is_internal ? "internal" : "");
    }
    cli_table_print(&table, cli->out);
    cli_table_done(&table);
}

int cli_topic_list(struct cli *cli)
{
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_cluster *cluster = NULL;
    enum err e = client_describe(c, NULL, 0, &cluster);
    if (e != ERR_OK) {
        code = cli_client_fail(cli, c, e, NULL);
    } else if (cli_has(cli, "json")) {
        code = print_topics_json(cli, cluster);
    } else {
        print_topics(cli, cluster);
    }
    client_cluster_free(cluster);
    client_free(c);
    return code;
}

/* ---- describe ---- */

/* A topic, its own options and, per partition, where it starts and ends. */
struct description {
    const struct client_topic_info *topic;
    struct client_configs *configs; /* NULL: not known. */
    struct client_offset *starts;
    struct client_offset *ends;
};

/* Offsets are nice to have: a partition without a leader must not hide the others. */
static void find_ends(struct client *c, const char *name, struct description *d)
{
    const size_t count = d->topic->partitions_count;
    bool has_all_leaders = true;
    for (size_t i = 0; i < count; i++) {
        const int32_t partition = d->topic->partitions[i].partition;
        d->starts[i] = (struct client_offset){partition, CLIENT_OFFSET_START, -1};
        d->ends[i] = (struct client_offset){partition, CLIENT_OFFSET_END, -1};
        has_all_leaders &= d->topic->partitions[i].leader_id >= 0;
    }
    if (has_all_leaders) {
        (void)client_find_offsets(c, name, d->starts, count);
        (void)client_find_offsets(c, name, d->ends, count);
    }
}

/* Those that were set for this topic. */
static bool is_own(const struct client_config_entry *o)
{
    return o->source == CLIENT_CONFIG_TOPIC;
}

static json_t *own_configs_json(const struct client_configs *configs)
{
    json_t *list = json_array();
    for (size_t i = 0; configs != NULL && i < configs->entries_count; i++) {
        const struct client_config_entry *o = &configs->entries[i];
        if (is_own(o)) {
            (void)json_array_append_new(list,
                                        json_pack("{s:o, s:o}",
                                                  "name",
                                                  cli_json_slice(o->name),
                                                  "value",
                                                  cli_json_slice(o->value)));
        }
    }
    return list;
}

static void print_own_configs(struct cli *cli, const struct client_configs *configs)
{
    const char *label = "options";
    for (size_t i = 0; configs != NULL && i < configs->entries_count; i++) {
        const struct client_config_entry *o = &configs->entries[i];
        if (is_own(o)) {
            cli_put(cli->out,
                    "%-12s%.*s=%.*s",
                    label,
                    (int)o->name.size,
                    (const char *)o->name.data,
                    (int)o->value.size,
                    (const char *)o->value.data);
            (void)fputc('\n', cli->out);
            label = "";
        }
    }
}

static json_t *ids_json(const int32_t *ids, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(list, json_integer(ids[i]));
    }
    return list;
}

static json_t *offset_json(int64_t offset)
{
    return offset < 0 ? json_null() : json_integer(offset);
}

static int print_description_json(struct cli *cli, const struct description *d)
{
    json_t *topic = topic_json(d->topic);
    json_t *list = json_array();
    for (size_t i = 0; i < d->topic->partitions_count; i++) {
        const struct client_partition *p = &d->topic->partitions[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:i, s:i, s:i, s:o, s:o, s:o, s:o}",
                                              "partition",
                                              p->partition,
                                              "leader",
                                              p->leader_id,
                                              "leader_epoch",
                                              p->leader_epoch,
                                              "replicas",
                                              ids_json(p->replicas, p->replicas_count),
                                              "isr",
                                              ids_json(p->isr, p->isr_count),
                                              "start",
                                              offset_json(d->starts[i].offset),
                                              "end",
                                              offset_json(d->ends[i].offset)));
    }
    (void)json_object_set_new(topic, "partitions", list);
    (void)json_object_set_new(topic, "configs", own_configs_json(d->configs));
    return cli_print_json(cli, topic);
}

static const char *ids_text(const int32_t *ids, size_t count, char text[IDS_TEXT_SIZE])
{
    size_t size = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count && size < IDS_TEXT_SIZE; i++) {
        size += (size_t)snprintf(
            text + size, IDS_TEXT_SIZE - size, "%s%" PRId32, i > 0 ? "," : "", ids[i]);
    }
    return text;
}

static const char *offset_text(int64_t offset, char text[32])
{
    if (offset < 0) {
        return "?";
    }
    (void)snprintf(text, 32, "%" PRId64, offset);
    return text;
}

static void print_description(struct cli *cli, const struct description *d)
{
    static const char *const heading[] = {
        "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END"};
    const struct client_topic_info *t = d->topic;
    char id[UUID_TEXT_SIZE];
    uuid_format(&t->id, id);
    cli_put(cli->out,
            "name        %.*s%s",
            (int)t->name.size,
            (const char *)t->name.data,
            t->is_internal ? " (internal)" : "");
    (void)fprintf(cli->out,
                  "\nid          %s\npartitions  %zu\nreplicas    %zu\n",
                  id,
                  t->partitions_count,
                  replication_of(t));
    print_own_configs(cli, d->configs);
    (void)fputc('\n', cli->out);
    struct cli_table table;
    cli_table_init(&table, 7, heading);
    for (size_t i = 0; i < t->partitions_count; i++) {
        const struct client_partition *p = &t->partitions[i];
        char ids[IDS_TEXT_SIZE];
        char offset[32];
        cli_table_cell(&table, "%" PRId32, p->partition);
        if (p->leader_id < 0) {
            cli_table_cell(&table, "none");
        } else {
            cli_table_cell(&table, "%" PRId32, p->leader_id);
        }
        cli_table_cell(&table, "%" PRId32, p->leader_epoch);
        cli_table_cell(&table, "%s", ids_text(p->replicas, p->replicas_count, ids));
        cli_table_cell(&table, "%s", ids_text(p->isr, p->isr_count, ids));
        cli_table_cell(&table, "%s", offset_text(d->starts[i].offset, offset));
        cli_table_cell(&table, "%s", offset_text(d->ends[i].offset, offset));
    }
    cli_table_print(&table, cli->out);
    cli_table_done(&table);
}

static int describe(struct cli *cli, struct client *c, const struct client_topic_info *topic)
{
    const char *name = cli->operands[0];
    const size_t count = topic->partitions_count;
    struct description d = {.topic = topic};
    d.starts = calloc(count + 1, sizeof(*d.starts));
    d.ends = calloc(count + 1, sizeof(*d.ends));
    int code = CLI_OK;
    if (d.starts == NULL || d.ends == NULL) {
        code = cli_fail(cli, CLI_FAILED, "no memory");
        goto out_free;
    }
    find_ends(c, name, &d);
    if (client_describe_topic_configs(c, name, &d.configs) != ERR_OK) {
        d.configs = NULL; /* Nice to have too. */
    }
    if (cli_has(cli, "json")) {
        code = print_description_json(cli, &d);
    } else {
        print_description(cli, &d);
    }

out_free:
    client_configs_free(d.configs);
    free(d.starts);
    free(d.ends);
    return code;
}

int cli_topic_describe(struct cli *cli)
{
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    const char *const name = cli->operands[0];
    struct client_cluster *cluster = NULL;
    enum err e = client_describe(c, &name, 1, &cluster);
    if (e == ERR_OK && cluster->topics_count != 1) {
        code = cli_fail(cli, CLI_FAILED, "the broker says nothing about '%s'", name);
    } else if (e != ERR_OK) {
        code = cli_client_fail(cli, c, e, name);
    } else if (cluster->topics[0].err != ERR_OK) {
        code = cli_client_fail(cli, c, client_topic_why(c, &cluster->topics[0]), name);
    } else {
        code = describe(cli, c, &cluster->topics[0]);
    }
    client_cluster_free(cluster);
    client_free(c);
    return code;
}
