/* DescribeUserScramCredentials: there are no users. */
#include "kafka/proto/describe_user_scram_credentials.h"

#include "kafka/handlers/handlers.h"
#include "kafka/request.h"
#include "kafka/seen.h"

typedef struct describe_user_scram_credentials_response_result result_out;

enum {
    USER_SHOWN_MAX = 255,
};

/* Once for each user, however often it was named. */
static void add_result(struct request *r,
                       struct describe_user_scram_credentials_response *out,
                       struct slice name,
                       bool is_repeated)
{
    result_out *result = &out->results[out->results_count++];
    describe_user_scram_credentials_response_result_init(result);
    result->user = name;
    if (is_repeated) {
        result->error_code = KAFKA_DUPLICATE_RESOURCE;
        result->error_message = request_text(
            r,
            "Cannot describe SCRAM credentials for the same user twice in a single request: %.*s",
            slice_shown(name, USER_SHOWN_MAX),
            (const char *)name.data);
        return;
    }
    result->error_code = KAFKA_RESOURCE_NOT_FOUND;
    result->error_message =
        request_text(r,
                     "Attempt to describe a user credential that does not exist: %.*s",
                     slice_shown(name, USER_SHOWN_MAX),
                     (const char *)name.data);
}

void handle_describe_user_scram_credentials(struct request *r)
{
    const struct describe_user_scram_credentials_request *in = r->in;
    struct describe_user_scram_credentials_response out;
    describe_user_scram_credentials_response_init(&out);
    struct seen named;
    struct seen told;
    out.results = request_alloc(r, in->users_count, sizeof(*out.results));
    if (out.results == NULL || !seen_init(&named, r, in->users_count) ||
        !seen_init(&told, r, in->users_count)) {
        request_abort(r, "too many users");
        return;
    }
    for (size_t i = 0; i < in->users_count; i++) {
        (void)seen_add(&named, in->users[i].name, 0);
    }
    for (size_t i = 0; i < in->users_count; i++) {
        const struct slice name = in->users[i].name;
        if (seen_add(&told, name, 0) == 1) {
            add_result(r, &out, name, seen_times(&named, name, 0) > 1);
        }
    }
    request_answer(r, &out);
}
