/* Goal: headers as PROTOCOL 1-3 have them, in the corner cases that the golden vectors lack. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/header.h"

enum {
    SIZE_MAX_HERE = 1 << 16,
};

static const uint8_t librdkafka_request[] = {
    0x00, 0x12, 0x00, 0x03, 0x00, 0x00, 0x00, 0x01, 0x00, 0x07, 0x72, 0x64, 0x6b,
    0x61, 0x66, 0x6b, 0x61, 0x00, 0x0b, 0x6c, 0x69, 0x62, 0x72, 0x64, 0x6b, 0x61,
    0x66, 0x6b, 0x61, 0x07, 0x32, 0x2e, 0x31, 0x35, 0x2e, 0x30, 0x00};

/* The request that every librdkafka client starts with. */
Test(header, api_versions_v3_of_librdkafka)
{
    struct rbuf frame = rbuf_over(librdkafka_request, sizeof(librdkafka_request));
    struct request_header header;
    cr_assert(eq(int, request_header_decode(&frame, &header), ERR_OK));
    cr_assert(eq(i16, header.api_key, API_API_VERSIONS));
    cr_assert(eq(i16, header.api_version, 3));
    cr_assert(eq(i32, header.correlation_id, 1));
    cr_assert(slice_equal_string(header.client_id, "rdkafka"));

    struct arena a;
    arena_init(&a, SIZE_MAX_HERE);
    struct api_versions_request request;
    cr_assert(eq(int, api_versions_request_decode(&frame, 3, &a, &request), ERR_OK));
    cr_assert(slice_equal_string(request.client_software_name, "librdkafka"));
    cr_assert(slice_equal_string(request.client_software_version, "2.15.0"));
    arena_done(&a);
}

/* To a version of the future: v0, the error, our own range, and no throttle time. */
Test(header, answer_to_an_unknown_api_versions_version)
{
    static const uint8_t expected[] = {0x00,
                                       0x00,
                                       0x00,
                                       0x01,
                                       0x00,
                                       0x23,
                                       0x00,
                                       0x00,
                                       0x00,
                                       0x01,
                                       0x00,
                                       0x12,
                                       0x00,
                                       0x00,
                                       0x00,
                                       0x04};
    struct api_versions_response_api_key row;
    api_versions_response_api_key_init(&row);
    row.api_key = API_API_VERSIONS;
    row.max_version = API_VERSIONS_VERSION_MAX;
    struct api_versions_response response;
    api_versions_response_init(&response);
    response.error_code = 35;
    response.api_keys = &row;
    response.api_keys_count = 1;
    struct wbuf w;
    wbuf_init(&w, SIZE_MAX_HERE);
    cr_assert(eq(int, response_header_encode(&w, API_API_VERSIONS, 0, 1), ERR_OK));
    cr_assert(eq(int, api_versions_response_encode(&w, 0, &response), ERR_OK));
    cr_assert(slice_equal(wbuf_slice(&w), slice_of(expected, sizeof(expected))));
    wbuf_done(&w);
}

/* Its body, and what stands where the tagged fields would be, is not read. */
Test(header, a_newer_api_versions_is_read_up_to_the_client_id)
{
    static const uint8_t bytes[] = {0, 18, 0, 99, 0, 0, 0, 7, 0xff, 0xff, 0xde, 0xad};
    struct rbuf frame = rbuf_over(bytes, sizeof(bytes));
    struct request_header header;
    cr_assert(eq(int, request_header_decode(&frame, &header), ERR_OK));
    cr_assert(eq(i16, header.api_version, 99));
    cr_assert(eq(i32, header.correlation_id, 7));
    cr_assert(slice_is_null(header.client_id));
}

Test(header, tagged_fields_are_passed_over)
{
    static const uint8_t bytes[] = {0, 18, 0, 3, 0, 0, 0, 7, 0, 0, 2, 0, 1, 0xaa, 5, 2, 0xbb, 0xcc};
    struct rbuf frame = rbuf_over(bytes, sizeof(bytes));
    struct request_header header;
    cr_assert(eq(int, request_header_decode(&frame, &header), ERR_OK));
    cr_assert(eq(sz, rbuf_left(&frame), 0));
}

Test(header, unknown_keys_are_unsupported)
{
    static const int16_t keys[] = {-1, 4, 7, 52, 93, INT16_MAX};
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        const uint8_t bytes[] = {(uint8_t)(keys[i] >> 8), (uint8_t)keys[i], 0, 0, 0, 0, 0, 0, 0, 0};
        struct rbuf frame = rbuf_over(bytes, sizeof(bytes));
        struct request_header header = {.api_key = 77};
        cr_assert(eq(int, request_header_decode(&frame, &header), ERR_UNSUPPORTED));
        cr_assert(eq(i16, header.api_key, 77));
        struct wbuf w;
        wbuf_init(&w, SIZE_MAX_HERE);
        header.api_key = keys[i];
        cr_assert(eq(int, request_header_encode(&w, &header), ERR_UNSUPPORTED));
        cr_assert(eq(int, response_header_encode(&w, keys[i], 0, 1), ERR_UNSUPPORTED));
        wbuf_done(&w);
    }
}

Test(header, every_truncation_fails)
{
    for (size_t cut = 0; cut < 18; cut++) {
        struct rbuf frame = rbuf_over(librdkafka_request, cut);
        struct request_header header;
        cr_assert(ne(int, request_header_decode(&frame, &header), ERR_OK), "cut=%zu", cut);
    }
}

Test(header, the_correlation_id_can_be_read_ahead)
{
    static const uint8_t bytes[] = {0, 0, 1, 2, 0};
    const struct rbuf frame = rbuf_over(bytes, sizeof(bytes));
    int32_t correlation_id = 0;
    cr_assert(eq(int, response_correlation_id(&frame, &correlation_id), ERR_OK));
    cr_assert(eq(i32, correlation_id, 258));
    cr_assert(eq(sz, rbuf_left(&frame), sizeof(bytes)));
    const struct rbuf cut = rbuf_over(bytes, 3);
    cr_assert(eq(int, response_correlation_id(&cut, &correlation_id), ERR_EOF));
}
