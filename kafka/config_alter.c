#include "kafka/config_alter.h"

#include <string.h>

#include "cluster/commands.h"
#include "cluster/config_specs.h"
#include "cluster/topic_configs.h"
#include "core/assert.h"
#include "core/shard.h"
#include "kafka/config_log_level.h"
#include "kafka/request.h"
#include "kafka/seen.h"

enum {
    CHANGES_MAX = 1024, /* Of one resource: they are judged in one turn. */
};

struct config_alter *config_alter_new(struct request *r, size_t count)
{
    struct config_alter *alter = request_alloc(r, 1, sizeof(*alter));
    if (alter == NULL) {
        return NULL;
    }
    alter->count = count;
    alter->all = request_alloc(r, count, sizeof(*alter->all));
    r->state = alter;
    return alter->all == NULL ? NULL : alter;
}

bool config_alter_reserve(struct request *r, struct config_alteration *a, size_t changes_count)
{
    a->changes_count = changes_count;
    a->changes = request_alloc(r, changes_count, sizeof(*a->changes));
    return a->changes != NULL;
}

static void refuse(struct config_alteration *a, const char *why)
{
    a->error = KAFKA_INVALID_REQUEST;
    a->message = slice_of_string(why);
}

/* ---- rules that need no state ---- */

/* False at the request's memory limit. */
static bool check_changes(struct request *r, struct config_alteration *a)
{
    struct seen seen;
    if (a->changes_count > CHANGES_MAX) {
        refuse(a, "More than 1024 configurations for one resource.");
        return true;
    }
    if (!seen_init(&seen, r, a->changes_count)) {
        return false;
    }
    for (size_t i = 0; i < a->changes_count && a->error == KAFKA_NONE; i++) {
        const struct config_change *change = &a->changes[i];
        if (change->name.size == 0) {
            refuse(a, "A configuration has no name.");
        } else if (change->operation < CONFIG_SET || change->operation > CONFIG_SUBTRACT) {
            refuse(a, NULL);
            a->message = request_text(r, "Unknown operations type %d", (int)change->operation);
        } else if (change->operation != CONFIG_DELETE && slice_is_null(change->value)) {
            refuse(a, NULL);
            a->message = request_text(r,
                                      "Null value not supported for : %.*s",
                                      slice_shown(change->name, SLICE_SHOWN_MAX),
                                      (const char *)change->name.data);
        } else if (seen_add(&seen, change->name, 0) > 1) {
            refuse(a, "Error due to duplicate config keys");
        }
    }
    return true;
}

/* This broker's, by its id, or that of all ("", where there is such a thing). */
static void check_broker(struct request *r, struct config_alteration *a, bool has_all)
{
    const struct slice name = a->resource_name;
    const int32_t node_id = metadata_node_id(cluster_metadata(r->d->cluster));
    const char *text = name.size == 0 ? "" : (const char *)name.data;
    int64_t id;
    if (has_all && name.size == 0) {
        return;
    }
    const bool is_number = topic_config_parse_number(name, &id) && name.data[0] > ' ' &&
                           name.data[name.size - 1] > ' ';
    if (!is_number) {
        refuse(a, NULL);
        a->message = request_text(r,
                                  "Node id must be an integer, but it is: %.*s",
                                  slice_shown(name, SLICE_SHOWN_MAX),
                                  text);
    } else if (id != node_id) {
        refuse(a, NULL);
        a->message = request_text(r,
                                  "Unexpected broker id, expected %d, but received %.*s",
                                  node_id,
                                  slice_shown(name, SLICE_SHOWN_MAX),
                                  text);
    } else {
        a->name = request_text(r, "%d", node_id); /* "+1" and "01" are the same one. */
    }
}

static void check_name(struct config_alteration *a, const char *empty)
{
    if (a->resource_name.size == 0) {
        refuse(a, empty);
    } else if (a->resource_name.size > COMMAND_RESOURCE_NAME_SIZE_MAX ||
               memchr(a->resource_name.data, '\0', a->resource_name.size) != NULL) {
        refuse(a, "A name has at most 32767 characters, and no NUL.");
    }
}

static void
check_resource(struct request *r, const struct config_alter *alter, struct config_alteration *a)
{
    switch (a->resource_type) {
    case CONFIG_RESOURCE_TOPIC:
        if (a->resource_name.size == 0) {
            refuse(a, "Default topic resources are not allowed.");
        }
        return;
    case CONFIG_RESOURCE_BROKER:
        check_broker(r, a, true);
        return;
    case CONFIG_RESOURCE_GROUP:
        check_name(a, "Default group resources are not allowed.");
        return;
    case CONFIG_RESOURCE_CLIENT_METRICS:
        check_name(a, "Subscription name can't be empty");
        return;
    case CONFIG_RESOURCE_BROKER_LOGGER:
        if (!alter->is_replacing) {
            check_broker(r, a, false);
            return;
        }
        break;
    default:
        break;
    }
    refuse(a, NULL);
    a->message = request_text(r, "Unknown resource type %d", a->resource_type);
}

static bool check_all(struct request *r, struct config_alter *alter)
{
    struct seen seen;
    if (!seen_init(&seen, r, alter->count)) {
        return false;
    }
    for (size_t i = 0; i < alter->count; i++) {
        (void)seen_add(&seen, alter->all[i].resource_name, alter->all[i].resource_type);
    }
    for (size_t i = 0; i < alter->count; i++) {
        struct config_alteration *a = &alter->all[i];
        if (seen_times(&seen, a->resource_name, a->resource_type) > 1) {
            refuse(a, "Each resource must appear at most once.");
            continue;
        }
        a->name = a->resource_name;
        check_resource(r, alter, a);
        /* A broker's name for which there was no memory must not be taken for that of all. */
        if (slice_is_null(a->name) || (a->error == KAFKA_NONE && !check_changes(r, a))) {
            return false;
        }
    }
    return true;
}

/* ---- the controller ---- */

static void on_altered(struct controller_request *c)
{
    struct request *r = c->context;
    struct config_alter *alter = r->state;
    struct config_alteration *a = container_of(c, struct config_alteration, request);
    a->error = kafka_error_of(c->result);
    if (c->result != ERR_OK) {
        a->message =
            c->message[0] != '\0' ? slice_of_string(c->message) : kafka_error_advice(c->result);
    }
    assert_cmp(alter->pending_count, >, 0);
    alter->pending_count--;
    if (alter->pending_count == 0) {
        alter->answer(r, alter);
    }
    request_release(r);
}

static struct config_changes changes_of(const struct config_alter *alter,
                                        const struct config_alteration *a)
{
    return (struct config_changes){
        .kind = (enum config_resource)a->resource_type,
        .is_replacing = alter->is_replacing,
        .changes = a->changes,
        .count = (uint32_t)a->changes_count,
    };
}

static void prepare(struct request *r, struct config_alter *alter, struct config_alteration *a)
{
    struct controller_request *c = &a->request;
    c->kind = CONTROLLER_ALTER_CONFIGS;
    c->on_done = on_altered;
    c->context = r;
    c->in.alter_configs.name = a->name;
    c->in.alter_configs.changes = changes_of(alter, a);
    c->in.alter_configs.is_validate_only = alter->is_validate_only;
    a->is_submitted = true;
    alter->pending_count++;
}

/* Of this process, and of nobody else: the controller does not hear of it. */
static void
change_logger(struct request *r, const struct config_alter *alter, struct config_alteration *a)
{
    char why[CONFIG_LOG_LEVEL_WHY_SIZE];
    const struct config_changes changes = changes_of(alter, a);
    const enum err e =
        config_log_level_change(r->d->s->log, &changes, alter->is_validate_only, why);
    if (e != ERR_OK) {
        a->error = kafka_error_of(e);
        a->message = request_text(r, "%s", why);
    }
}

void config_alter_run(struct request *r, struct config_alter *alter)
{
    if (!check_all(r, alter)) {
        request_abort(r, "too many configurations");
        return;
    }
    for (size_t i = 0; i < alter->count; i++) {
        struct config_alteration *a = &alter->all[i];
        if (a->error != KAFKA_NONE) {
            continue;
        }
        if (a->resource_type == CONFIG_RESOURCE_BROKER_LOGGER) {
            change_logger(r, alter, a);
        } else {
            prepare(r, alter, a);
        }
    }
    if (alter->pending_count == 0) {
        alter->answer(r, alter);
        return;
    }
    for (size_t i = 0; i < alter->count; i++) {
        if (alter->all[i].is_submitted) {
            request_hold(r);
            controller_submit(r->d->cluster, &alter->all[i].request);
        }
    }
}
