/* UpdateFeatures: ApiVersions lists no features, so there is none to change. */
#include "kafka/proto/update_features.h"

#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum {
    VERSION_ALL_OR_NOTHING = 2, /* One error for the whole request. */
    FEATURE_SHOWN_MAX = 100,
};

typedef struct update_features_request_feature_update update_in;

static struct slice explain(struct request *r, const update_in *in)
{
    const size_t size = in->feature.size;
    return request_text(r,
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
    if (r->version >= VERSION_ALL_OR_NOTHING && in->feature_updates_count > 0) {
        out.error_code = KAFKA_INVALID_UPDATE_VERSION;
        out.error_message = explain(r, &in->feature_updates[0]);
        request_answer(r, &out);
        return;
    }
    out.results_count = in->feature_updates_count;
    out.results = request_alloc(r, out.results_count, sizeof(*out.results));
    if (out.results == NULL) {
        request_abort(r, "too many features");
        return;
    }
    for (size_t i = 0; i < out.results_count; i++) {
        update_features_response_result_init(&out.results[i]);
        out.results[i].feature = in->feature_updates[i].feature;
        out.results[i].error_code = KAFKA_INVALID_UPDATE_VERSION;
        out.results[i].error_message = explain(r, &in->feature_updates[i]);
    }
    request_answer(r, &out);
}
