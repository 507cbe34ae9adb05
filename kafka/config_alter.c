#include "kafka/config_alter.h"

#include "core/assert.h"
#include "kafka/config_resource.h"
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

static const char *fault_of_change(const struct config_change *change)
{
    if (change->name.size == 0) {
        return "A configuration has no name.";
    }
    if (change->operation < CONFIG_SET || change->operation > CONFIG_SUBTRACT) {
        return "Unknown operation: there are SET (0), DELETE (1), APPEND (2) and SUBTRACT (3).";
    }
    if (change->operation != CONFIG_DELETE && slice_is_null(change->value)) {
        return "Null value not supported: use DELETE to go back to the default.";
    }
    return NULL;
}

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
    for (size_t i = 0; i < a->changes_count; i++) {
        const char *fault = fault_of_change(&a->changes[i]);
        if (fault == NULL && seen_add(&seen, a->changes[i].name, 0) > 1) {
            fault = "A configuration is named twice for one resource.";
        }
        if (fault != NULL) {
            refuse(a, fault);
            return true;
        }
    }
    return true;
}

static void check_resource(struct request *r, struct config_alteration *a)
{
    if (a->resource_type != CONFIG_RESOURCE_TOPIC) {
        a->error = KAFKA_INVALID_REQUEST;
        a->message = request_text(r,
                                  "Resource type %d cannot be altered here: only topics (2) can. "
                                  "A broker's are set in its file or on its command line.",
                                  a->resource_type);
    } else if (a->resource_name.size == 0) {
        refuse(a, "The resource has no name.");
    }
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
            refuse(a, "Each resource must appear at most once in a request.");
            continue;
        }
        check_resource(r, a);
        if (a->error == KAFKA_NONE && !check_changes(r, a)) {
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

static void prepare(struct request *r, struct config_alter *alter, struct config_alteration *a)
{
    struct controller_request *c = &a->request;
    c->kind = CONTROLLER_ALTER_CONFIGS;
    c->on_done = on_altered;
    c->context = r;
    c->in.alter_configs.topic_name = a->resource_name;
    c->in.alter_configs.changes = (struct config_changes){
        .is_replacing = alter->is_replacing,
        .changes = a->changes,
        .count = (uint32_t)a->changes_count,
    };
    c->in.alter_configs.is_validate_only = alter->is_validate_only;
    a->is_submitted = true;
    alter->pending_count++;
}

void config_alter_run(struct request *r, struct config_alter *alter)
{
    if (!check_all(r, alter)) {
        request_abort(r, "too many configurations");
        return;
    }
    for (size_t i = 0; i < alter->count; i++) {
        if (alter->all[i].error == KAFKA_NONE) {
            prepare(r, alter, &alter->all[i]);
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
