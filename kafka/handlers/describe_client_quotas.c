/* DescribeClientQuotas: none is set, which is told to those who ask properly. */
#include "kafka/proto/describe_client_quotas.h"

#include "kafka/handlers/handlers.h"
#include "kafka/request.h"

enum match_type {
    MATCH_EXACT = 0,
    MATCH_DEFAULT = 1,
    MATCH_ANY = 2,
};

typedef struct describe_client_quotas_request_component component;

static struct slice check_component(struct request *r, const component *c)
{
    const bool has_match = !slice_is_null(c->match);
    if (c->entity_type.size == 0) {
        return slice_of_string("Invalid empty entity type.");
    }
    if (c->match_type == MATCH_EXACT) {
        return has_match ? (struct slice){0}
                         : slice_of_string(
                               "Request specified MATCH_TYPE_EXACT, but set match string to null.");
    }
    if (c->match_type == MATCH_DEFAULT || c->match_type == MATCH_ANY) {
        return has_match ? request_text(r,
                                        "Request specified %s, but also specified a match string.",
                                        c->match_type == MATCH_DEFAULT ? "MATCH_TYPE_DEFAULT"
                                                                       : "MATCH_TYPE_SPECIFIED")
                         : (struct slice){0};
    }
    return request_text(r, "Unknown match type %d", c->match_type);
}

static bool is_entity_type(struct slice name)
{
    return slice_equal_string(name, "user") || slice_equal_string(name, "client-id") ||
           slice_equal_string(name, "ip");
}

static bool is_named(const struct describe_client_quotas_request *in, const char *entity_type)
{
    for (size_t i = 0; i < in->components_count; i++) {
        if (slice_equal_string(in->components[i].entity_type, entity_type)) {
            return true;
        }
    }
    return false;
}

/* The first thing that is wrong; empty if nothing is. Three types at most may be named, so that the
 * search for one that is named twice ends soon. */
static struct slice check(struct request *r, enum kafka_error *ret_error)
{
    const struct describe_client_quotas_request *in = r->in;
    *ret_error = KAFKA_INVALID_REQUEST;
    for (size_t i = 0; i < in->components_count; i++) {
        const component *c = &in->components[i];
        const struct slice why = check_component(r, c);
        if (!slice_is_null(why)) {
            return why;
        }
        if (!is_entity_type(c->entity_type)) {
            *ret_error = KAFKA_UNSUPPORTED_VERSION;
            return request_text(r,
                                "Unsupported entity type %.*s",
                                (int)c->entity_type.size,
                                (const char *)c->entity_type.data);
        }
        for (size_t j = 0; j < i; j++) {
            if (slice_equal(c->entity_type, in->components[j].entity_type)) {
                return request_text(r,
                                    "Entity type %.*s cannot appear more than once in the filter.",
                                    (int)c->entity_type.size,
                                    (const char *)c->entity_type.data);
            }
        }
    }
    if (is_named(in, "ip") && (is_named(in, "user") || is_named(in, "client-id"))) {
        return slice_of_string("Invalid entity filter component combination. IP filter component "
                               "should not be used with user or clientId filter component.");
    }
    *ret_error = KAFKA_NONE;
    return slice_of("", 0); /* Not null, as Kafka. */
}

void handle_describe_client_quotas(struct request *r)
{
    struct describe_client_quotas_response_entry none;
    struct describe_client_quotas_response out;
    describe_client_quotas_response_init(&out);
    enum kafka_error error;
    out.error_message = check(r, &error);
    out.error_code = (int16_t)error;
    out.entries = error == KAFKA_NONE ? &none : NULL; /* Null only with an error. */
    request_answer(r, &out);
}
