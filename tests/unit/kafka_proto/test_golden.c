/* Goal: our bytes are Kafka's bytes. Method: vectors made by Kafka's own Java client
 * (tests/golden/java), each with the client's JSON form. Ours must decode them to the same JSON,
 * encode them to the same bytes, and refuse every prefix.
 *
 * Vectors called "unknown" carry tagged fields that nobody knows: they are dropped, so what is
 * encoded again is not compared.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/wbuf.h"
#include "kafka/proto/header.h"

#include "tests/unit/kafka_proto/support.h"

enum {
    MESSAGE_SIZE_MAX = 1 << 20,
    HEADER_CORRELATION_ID = 0x010203, /* As Golden.java sets it. */
};

/* One line of a .hex and the same line of the .json file. */
struct vector {
    const char *kind; /* "request full" */
    struct slice bytes;
    const char *json;
    bool is_first; /* Request or key, not response or value. */
    bool has_unknown;
};

static FILE *open_file(const char *api, int version, const char *kind)
{
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/%s/v%d.%s", GOLDEN_DIR, api, version, kind);
    FILE *file = fopen(path, "r");
    cr_assert(ne(ptr, file, NULL), "no vectors: %s", path);
    return file;
}

/* In place: two digits become a byte at the front. */
static struct slice parse_hex(char *text)
{
    const size_t size = strlen(text) / 2;
    uint8_t *bytes = (uint8_t *)text;
    for (size_t i = 0; i < size; i++) {
        const char digits[3] = {text[2 * i], text[2 * i + 1], 0};
        bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return slice_of(bytes, size);
}

/* "request full <rest>": cuts the line after the second word and returns the rest. */
static char *split_line(char *line)
{
    line[strcspn(line, "\n")] = 0;
    char *second = strchr(line, ' ');
    cr_assert(ne(ptr, second, NULL));
    char *rest = strchr(second + 1, ' ');
    if (rest == NULL) {
        return second + strlen(second); /* No bytes: some requests are empty. */
    }
    *rest = 0;
    return rest + 1;
}

/* Criterion cuts long messages, so a failure shows the texts around their first difference. */
static void expect_dump(const struct sample *s, const struct vector *v)
{
    struct wbuf text;
    wbuf_init(&text, MESSAGE_SIZE_MAX);
    schema_dump(&text, s->message->root, s->version, s->value);
    wbuf_i8(&text, 0);
    cr_assert(eq(int, wbuf_failure(&text), ERR_OK));
    const char *ours = (const char *)text.data;
    size_t same = 0;
    while (ours[same] == v->json[same] && ours[same] != 0) {
        same++;
    }
    const size_t from = same > 80 ? same - 80 : 0;
    cr_assert(ours[same] == v->json[same],
              "%s %s\nours:  %.160s\nKafka: %.160s",
              s->name,
              v->kind,
              ours + from,
              v->json + from);
    wbuf_done(&text);
}

static void expect_same_bytes(const struct sample *s, const struct vector *v)
{
    struct wbuf bytes;
    wbuf_init(&bytes, MESSAGE_SIZE_MAX);
    cr_assert(eq(int, s->message->encode(&bytes, s->version, s->value), ERR_OK),
              "%s %s",
              s->name,
              v->kind);
    cr_assert(slice_equal(wbuf_slice(&bytes), v->bytes), "%s %s: bytes differ", s->name, v->kind);
    wbuf_done(&bytes);
}

/* What vectors are of: an API or a record. */
struct subject {
    const struct schema_api *api;
    const struct schema_record *record;
};

static void check_vector(const struct subject *subject, int16_t version, const struct vector *v)
{
    struct sample s;
    if (subject->api != NULL) {
        sample_init(&s, subject->api, v->is_first, version);
    } else {
        sample_init_record(&s, subject->record, v->is_first, version);
    }
    uint8_t *copy = NULL;
    cr_assert(eq(int, sample_decode(&s, v->bytes, &copy), ERR_OK), "%s %s", s.name, v->kind);
    expect_dump(&s, v);
    if (!v->has_unknown) {
        expect_same_bytes(&s, v);
    }
    free(copy);
    for (size_t cut = 0; cut < v->bytes.size; cut++) {
        const enum err e = sample_decode(&s, slice_of(v->bytes.data, cut), &copy);
        cr_assert(ne(int, e, ERR_OK), "%s %s cut=%zu", s.name, v->kind, cut);
        free(copy);
    }
    sample_done(&s);
}

/* Returns how many vectors there were. */
static int check_version(const struct subject *subject, const char *folder, int16_t version)
{
    FILE *hex = open_file(folder, version, "hex");
    FILE *json = open_file(folder, version, "json");
    char *hex_line = NULL;
    char *json_line = NULL;
    size_t hex_size = 0;
    size_t json_size = 0;
    int count = 0;
    while (getline(&hex_line, &hex_size, hex) > 0) {
        cr_assert(getline(&json_line, &json_size, json) > 0);
        char *digits = split_line(hex_line);
        char *text = split_line(json_line);
        cr_assert(eq(str, hex_line, json_line));
        const struct vector v = {
            .kind = hex_line,
            .bytes = parse_hex(digits),
            .json = text,
            .is_first = strncmp(hex_line, "request", 7) == 0 || strncmp(hex_line, "key", 3) == 0,
            .has_unknown = strstr(hex_line, "unknown") != NULL,
        };
        check_vector(subject, version, &v);
        count++;
    }
    free(hex_line);
    free(json_line);
    (void)fclose(hex);
    (void)fclose(json);
    return count;
}

Test(golden, messages_are_those_of_the_java_client)
{
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        const struct schema_api *api = SCHEMA_APIS[i];
        const struct subject subject = {.api = api};
        for (int16_t v = api->version_min; v <= api->version_max; v++) {
            const int kinds = v >= api->flexible_min ? 4 : 3;
            cr_assert(
                eq(int, check_version(&subject, api->name, v), 2 * kinds), "%s v%d", api->name, v);
        }
    }
}

Test(golden, records_are_those_of_kafkas_coordinator)
{
    for (size_t i = 0; i < SCHEMA_INTERNAL_RECORDS_COUNT; i++) {
        const struct schema_record *record = SCHEMA_INTERNAL_RECORDS[i];
        const struct subject subject = {.record = record};
        char folder[128];
        (void)snprintf(folder, sizeof(folder), "records/%s", record->name);
        for (int16_t v = record->versions.min; v <= record->versions.max; v++) {
            const int of_key = record->key.root != NULL && v == record->versions.min ? 3 : 0;
            const int of_value = v >= record->flexible_min ? 4 : 3;
            cr_assert(eq(int, check_version(&subject, folder, v), of_key + of_value),
                      "%s v%d",
                      folder,
                      v);
        }
    }
}

static void check_headers(int16_t key, int16_t version, struct slice request, struct slice response)
{
    struct rbuf frame = rbuf_over(request.data, request.size);
    struct request_header header;
    cr_assert(eq(int, request_header_decode(&frame, &header), ERR_OK));
    cr_assert(eq(sz, rbuf_left(&frame), 0));
    cr_assert(eq(i16, header.api_key, key));
    cr_assert(eq(i16, header.api_version, version));
    cr_assert(eq(i32, header.correlation_id, HEADER_CORRELATION_ID));
    cr_assert(slice_equal_string(header.client_id, "golden-\xc3\xbc"));

    struct wbuf w;
    wbuf_init(&w, MESSAGE_SIZE_MAX);
    cr_assert(eq(int, request_header_encode(&w, &header), ERR_OK));
    cr_assert(slice_equal(wbuf_slice(&w), request), "key %d v%d", key, version);
    wbuf_done(&w);
    wbuf_init(&w, MESSAGE_SIZE_MAX);
    cr_assert(eq(int, response_header_encode(&w, key, version, HEADER_CORRELATION_ID), ERR_OK));
    cr_assert(slice_equal(wbuf_slice(&w), response), "key %d v%d", key, version);
    wbuf_done(&w);

    frame = rbuf_over(response.data, response.size);
    int32_t correlation_id = 0;
    cr_assert(eq(int, response_header_decode(&frame, key, version, &correlation_id), ERR_OK));
    cr_assert(eq(i32, correlation_id, HEADER_CORRELATION_ID));
    cr_assert(eq(sz, rbuf_left(&frame), 0));
}

Test(golden, headers_are_those_of_the_java_client)
{
    FILE *file = fopen(GOLDEN_DIR "/headers.txt", "r");
    cr_assert(ne(ptr, file, NULL));
    char *line = NULL;
    size_t size = 0;
    int count = 0;
    while (getline(&line, &size, file) > 0) {
        int16_t key = 0;
        int16_t version = 0;
        char request[128];
        char response[128];
        if (line[0] == '#') {
            continue;
        }
        cr_assert(eq(
            int,
            sscanf(line, "%" SCNd16 " %" SCNd16 " %127s %127s", &key, &version, request, response),
            4));
        check_headers(key, version, parse_hex(request), parse_hex(response));
        count++;
    }
    int expected = 0;
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        expected += SCHEMA_APIS[i]->version_max - SCHEMA_APIS[i]->version_min + 1;
    }
    cr_assert(eq(int, count, expected));
    free(line);
    (void)fclose(file);
}
