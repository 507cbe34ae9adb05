#include "kafka/proto/header.h"

#include "core/assert.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/schema.h"
#include "kafka/proto/wire.h"

static bool is_response_flexible(const struct schema_api *api, int16_t version)
{
    return version >= api->flexible_min && api->key != API_API_VERSIONS;
}

/* The client id, whose form did not change when the rest became flexible. */
static struct slice read_client_id(struct rbuf *frame)
{
    struct wire_reader r = {.in = frame, .is_flexible = false};
    return wire_read_string(&r, true);
}

static void skip_tags(struct rbuf *frame)
{
    struct wire_reader r = {.in = frame, .is_flexible = true};
    wire_skip_tags(&r);
}

enum err request_header_decode(struct rbuf *frame, struct request_header *ret_header)
{
    assert(ret_header != NULL);

    struct request_header header;
    header.api_key = rbuf_i16(frame);
    header.api_version = rbuf_i16(frame);
    header.correlation_id = rbuf_i32(frame);
    if (frame->failure != ERR_OK) {
        return frame->failure;
    }
    const struct schema_api *api = schema_api_find(header.api_key);
    if (api == NULL) {
        return ERR_UNSUPPORTED;
    }
    header.client_id = read_client_id(frame);
    if (header.api_version >= api->flexible_min && header.api_version <= api->version_max) {
        skip_tags(frame);
    }
    if (frame->failure == ERR_OK) {
        *ret_header = header;
    }
    return frame->failure;
}

enum err request_header_encode(struct wbuf *w, const struct request_header *header)
{
    const struct schema_api *api = schema_api_find(header->api_key);
    if (api == NULL) {
        return ERR_UNSUPPORTED;
    }
    struct wire_writer writer = {.out = w, .is_flexible = false};
    wbuf_i16(w, header->api_key);
    wbuf_i16(w, header->api_version);
    wbuf_i32(w, header->correlation_id);
    wire_write_string(&writer, header->client_id, true);
    if (header->api_version >= api->flexible_min) {
        wbuf_uvarint(w, 0);
    }
    return wbuf_failure(w);
}

enum err
response_header_encode(struct wbuf *w, int16_t api_key, int16_t api_version, int32_t correlation_id)
{
    const struct schema_api *api = schema_api_find(api_key);
    if (api == NULL) {
        return ERR_UNSUPPORTED;
    }
    wbuf_i32(w, correlation_id);
    if (is_response_flexible(api, api_version)) {
        wbuf_uvarint(w, 0);
    }
    return wbuf_failure(w);
}

enum err response_header_decode(struct rbuf *frame,
                                int16_t api_key,
                                int16_t api_version,
                                int32_t *ret_correlation_id)
{
    const struct schema_api *api = schema_api_find(api_key);
    if (api == NULL) {
        return ERR_UNSUPPORTED;
    }
    const int32_t correlation_id = rbuf_i32(frame);
    if (is_response_flexible(api, api_version)) {
        skip_tags(frame);
    }
    if (frame->failure == ERR_OK) {
        *ret_correlation_id = correlation_id;
    }
    return frame->failure;
}

enum err response_correlation_id(const struct rbuf *frame, int32_t *ret_correlation_id)
{
    struct rbuf copy = *frame;
    const int32_t correlation_id = rbuf_i32(&copy);
    if (copy.failure == ERR_OK) {
        *ret_correlation_id = correlation_id;
    }
    return copy.failure;
}
