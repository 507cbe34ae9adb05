/* UpdateFeatures: ApiVersions lists no features, so there is none to change. */
#include "kafka/proto/update_features.h"

#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum {
    FEATURE_SHOWN_MAX = 100,
};

typedef struct update_features_request_feature_update update_in;

static struct slice explain(struct request *r, const update_in *in)
{
    const size_t size = in->feature.size;
    return request_text(
        r,
        "The update failed for all features since the following feature had an error: "
        "Invalid update version %d for feature %.*s. This version of Coreflume has "
        "no features to update.",
        in->max_version_level,
        (int)(size < FEATURE_SHOWN_MAX ? size : FEATURE_SHOWN_MAX),
        (const char *)in->feature.data);
}

void handle_update_features(struct request *r)
{
    const struct update_features_request *in = r->in;
    struct update_features_response out;
    update_features_response_init(&out);
    out.error_message = (struct slice){0};
    if (in->feature_updates_count > 0) { /* All or nothing, also where results could be told. */
        out.error_code = KAFKA_INVALID_UPDATE_VERSION;
        out.error_message = explain(r, &in->feature_updates[0]);
    }
    request_answer(r, &out);
}
