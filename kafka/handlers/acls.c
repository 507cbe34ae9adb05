/* DescribeAcls, CreateAcls and DeleteAcls of a broker without an authorizer: the code by which
 * clients that copy ACLs (MirrorMaker) know that there is nothing to copy.
 */
#include "kafka/handlers/handlers.h"
#include "kafka/proto/create_acls.h"
#include "kafka/proto/delete_acls.h"
#include "kafka/proto/describe_acls.h"
#include "kafka/request.h"

static struct slice explain(void)
{
    return slice_of_string("No Authorizer is configured: this version of Coreflume has no ACLs.");
}

void handle_describe_acls(struct request *r)
{
    struct describe_acls_response out;
    describe_acls_response_init(&out);
    out.error_code = KAFKA_SECURITY_DISABLED;
    out.error_message = explain();
    request_answer(r, &out);
}

void handle_create_acls(struct request *r)
{
    const struct create_acls_request *in = r->in;
    struct create_acls_response out;
    create_acls_response_init(&out);
    out.results_count = in->creations_count;
    out.results = request_alloc(r, out.results_count, sizeof(*out.results));
    if (out.results == NULL) {
        request_abort(r, "too many ACLs");
        return;
    }
    for (size_t i = 0; i < out.results_count; i++) {
        create_acls_response_result_init(&out.results[i]);
        out.results[i].error_code = KAFKA_SECURITY_DISABLED;
        out.results[i].error_message = explain();
    }
    request_answer(r, &out);
}

void handle_delete_acls(struct request *r)
{
    const struct delete_acls_request *in = r->in;
    struct delete_acls_response out;
    delete_acls_response_init(&out);
    out.filter_results_count = in->filters_count;
    out.filter_results = request_alloc(r, out.filter_results_count, sizeof(*out.filter_results));
    if (out.filter_results == NULL) {
        request_abort(r, "too many filters");
        return;
    }
    for (size_t i = 0; i < out.filter_results_count; i++) {
        delete_acls_response_filter_result_init(&out.filter_results[i]);
        out.filter_results[i].error_code = KAFKA_SECURITY_DISABLED;
        out.filter_results[i].error_message = explain();
    }
    request_answer(r, &out);
}
