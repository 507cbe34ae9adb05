/* IncrementalAlterConfigs: changes the configurations named, and no others (config_alter.h). */
#include "kafka/proto/incremental_alter_configs.h"

#include "kafka/config_alter.h"
#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

static void answer(struct request *r, struct config_alter *alter)
{
    struct incremental_alter_configs_response out;
    incremental_alter_configs_response_init(&out);
    out.responses_count = alter->count;
    out.responses = request_alloc(r, alter->count, sizeof(*out.responses));
    if (out.responses == NULL) {
        request_abort(r, "too many resources");
        return;
    }
    for (size_t i = 0; i < alter->count; i++) {
        const struct config_alteration *a = &alter->all[i];
        incremental_alter_configs_response_resource_init(&out.responses[i]);
        out.responses[i].error_code = (int16_t)a->error;
        out.responses[i].error_message = a->message;
        out.responses[i].resource_type = a->resource_type;
        out.responses[i].resource_name = a->resource_name;
    }
    request_answer(r, &out);
}

static bool take_resource(struct request *r,
                          const struct incremental_alter_configs_request_resource *in,
                          struct config_alteration *a)
{
    if (!config_alter_reserve(r, a, in->configs_count)) {
        return false;
    }
    a->resource_type = in->resource_type;
    a->resource_name = in->resource_name;
    for (size_t i = 0; i < in->configs_count; i++) {
        a->changes[i] = (struct config_change){
            .operation = (enum config_operation)in->configs[i].config_operation,
            .name = in->configs[i].name,
            .value = in->configs[i].value,
        };
    }
    return true;
}

void handle_incremental_alter_configs(struct request *r)
{
    const struct incremental_alter_configs_request *in = r->in;
    struct config_alter *alter = config_alter_new(r, in->resources_count);
    bool is_good = alter != NULL;
    for (size_t i = 0; i < in->resources_count && is_good; i++) {
        is_good = take_resource(r, &in->resources[i], &alter->all[i]);
    }
    if (!is_good) {
        request_abort(r, "too many configurations");
        return;
    }
    alter->is_replacing = false;
    alter->is_validate_only = in->validate_only;
    alter->answer = answer;
    config_alter_run(r, alter);
}
