#include "kafka/proto/api_versions.h"

#include "kafka/api_table.h"
#include "kafka/handlers/handlers.h"
#include "kafka/proto/api_keys.h"
#include "kafka/request.h"

enum {
    VERSION_CLIENT_NAMED = 3,
};

/* A version we do not know is answered in version 0, with our own range only (KIP-511): the client
 * then asks again with a version it finds there. */
static void answer_unknown_version(struct request *r)
{
    struct api_versions_response_api_key own = {
        .api_key = r->api->key,
        .min_version = r->api->listed_min,
        .max_version = r->api->max,
    };
    struct api_versions_response out;
    api_versions_response_init(&out);
    out.error_code = KAFKA_UNSUPPORTED_VERSION;
    out.api_keys = &own;
    out.api_keys_count = 1;
    request_answer(r, &out);
}

static bool is_alphanumeric(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Letters, digits, and '.' and '-' between them (KIP-511). */
static bool is_software_word(struct slice word)
{
    for (size_t i = 0; i < word.size; i++) {
        const uint8_t c = word.data[i];
        const bool is_inside = i > 0 && i + 1 < word.size;
        if (!is_alphanumeric(c) && !(is_inside && (c == '.' || c == '-'))) {
            return false;
        }
    }
    return word.size > 0;
}

static bool is_client_named_well(const struct request *r)
{
    const struct api_versions_request *in = r->in;
    return r->version < VERSION_CLIENT_NAMED || (is_software_word(in->client_software_name) &&
                                                 is_software_word(in->client_software_version));
}

/* Those that are known to be. librdkafka is not: it gives up a heartbeat, and its connection with
 * it, when the interval has passed that it was told last; and it goes by many names. */
static bool is_patient(struct slice name)
{
    static const char *const NAMES[] = {"apache-kafka-java", "kgo", "coreflume"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        if (slice_equal_string(name, NAMES[i])) {
            return true;
        }
    }
    return false;
}

static void note_client(const struct request *r)
{
    const struct api_versions_request *in = r->in;
    if (r->version >= VERSION_CLIENT_NAMED && is_patient(in->client_software_name)) {
        conn_set_client(r->conn, CLIENT_IS_PATIENT);
    }
}

void handle_api_versions(struct request *r)
{
    if (r->in == NULL) {
        answer_unknown_version(r);
        return;
    }
    if (!is_client_named_well(r)) {
        struct api_versions_response refusal;
        api_versions_response_init(&refusal);
        refusal.error_code = KAFKA_INVALID_REQUEST;
        request_answer(r, &refusal);
        return;
    }

    note_client(r);
    struct api_versions_response_api_key keys[API_COUNT];
    for (size_t i = 0; i < API_COUNT; i++) {
        keys[i] = (struct api_versions_response_api_key){
            .api_key = API_TABLE[i].key,
            .min_version = API_TABLE[i].listed_min,
            .max_version = API_TABLE[i].max,
        };
    }
    struct api_versions_response out;
    api_versions_response_init(&out);
    out.api_keys = keys;
    out.api_keys_count = API_COUNT;
    request_answer(r, &out);
}
