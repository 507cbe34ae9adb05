/* Records as lines of JSON: what is printed is read again; what is wrong is named. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_record_json.h"

static struct cli_record_json memory;

static void teardown(void)
{
    cli_record_json_done(&memory);
}

TestSuite(cli_record_json, .fini = teardown);

static bool same(struct slice a, struct slice b)
{
    return slice_is_null(a) == slice_is_null(b) && slice_equal(a, b);
}

static void expect_round_trip(const struct client_record *r)
{
    json_t *json = cli_record_to_json("t", r);
    cr_assert(json != NULL);
    char *line = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    char why[CLI_RECORD_WHY_SIZE] = "";
    struct client_message m;
    enum err e = cli_record_from_json(&memory, slice_of_string(line), &m, why);
    cr_assert(e == ERR_OK, "%s: %s", line, why);
    cr_assert(same(m.key, r->key), "%s", line);
    cr_assert(same(m.value, r->value), "%s", line);
    cr_assert(eq(int, m.partition, r->partition));
    cr_assert(eq(i64, m.timestamp, r->timestamp));
    cr_assert(m.has_timestamp);
    cr_assert(eq(sz, m.headers_count, r->headers_count));
    for (size_t i = 0; i < m.headers_count; i++) {
        cr_assert(same(m.headers[i].key, r->headers[i].key), "%s", line);
        cr_assert(same(m.headers[i].value, r->headers[i].value), "%s", line);
    }
    free(line);
}

/* Every kind of bytes, in every place, together with every other kind. */
Test(cli_record_json, what_is_printed_is_read_again)
{
    const struct slice kinds[] = {
        {0},
        slice_of("", 0),
        slice_of_string("text"),
        slice_of("\0", 1),
        slice_of_string("\"quoted\" \\ \n \xC3\xA4 \xF0\x9F\x98\x80"),
        slice_of_string("\xFF"),
        slice_of("\xFF\0", 2),
        slice_of("\x80\x81\x82", 3),
        slice_of_string("\xED\xA0\x80 is half a surrogate"),
    };
    const size_t count = sizeof(kinds) / sizeof(kinds[0]);
    const int64_t timestamps[] = {-1, 0, 1700000000123, INT64_MAX};
    for (size_t i = 0; i < count * count; i++) {
        const struct slice a = kinds[i / count];
        const struct slice b = kinds[i % count];
        const struct client_header headers[] = {
            {.key = slice_is_null(a) ? slice_of_string("k") : a, .value = b},
            {.key = slice_of_string("again"), .value = a},
        };
        expect_round_trip(&(struct client_record){
            .partition = (int32_t)i,
            .offset = 7,
            .timestamp = timestamps[i % 4],
            .key = a,
            .value = b,
            .headers = headers,
            .headers_count = i % 3,
        });
    }
}

/* ---- without memory ---- */

static size_t allocations_left;

static void *scarce_malloc(size_t size)
{
    return allocations_left > 0 && allocations_left-- > 0 ? malloc(size) : NULL;
}

/* Printed whole, or said not to be: what is not printed must not count as done. */
Test(cli_record_json, without_memory_a_record_is_not_printed_in_part)
{
    static const struct client_header headers[] = {
        {.key = {.data = (const uint8_t *)"k", .size = 1}, .value = {0}},
    };
    const struct client_record r = {.offset = 7,
                                    .key = slice_of_string("key"),
                                    .value = slice_of("\xFF", 1),
                                    .headers = headers,
                                    .headers_count = 1};
    static const char wanted[] =
        "{\"topic\":\"t\",\"partition\":0,\"offset\":7,\"timestamp\":0,\"key\":\"key\","
        "\"value_base64\":\"/w==\",\"headers\":[{\"key\":\"k\",\"value\":null}]}\n";
    size_t printed_count = 0;
    json_set_alloc_funcs(scarce_malloc, free);
    for (size_t count = 0; count < 200; count++) {
        char out[512] = "";
        char err[512] = "";
        struct cli cli = {.out = fmemopen(out, sizeof(out), "w"),
                          .err = fmemopen(err, sizeof(err), "w")};
        allocations_left = count;
        const int code = cli_print_json(&cli, cli_record_to_json("t", &r));
        (void)fclose(cli.out);
        (void)fclose(cli.err);
        cr_assert(eq(int, code == CLI_OK, strstr(out, wanted) == out), "%zu: %s", count, out);
        cr_assert(eq(int, code == CLI_OK, strstr(err, "no memory") == NULL), "%zu: %s", count, err);
        printed_count += code == CLI_OK;
    }
    json_set_alloc_funcs(malloc, free);
    cr_assert(lt(sz, 0, printed_count));
    cr_assert(lt(sz, printed_count, 200));
}

struct good_row {
    const char *line;
    const char *key; /* NULL: null. */
    const char *value;
    int64_t timestamp;
    int partition;
    size_t headers_count;
};

static const struct good_row good[] = {
    {"{\"value\":\"v\"}", NULL, "v", 0, -1, 0},
    {"  {\"key\" : \"k\", \"value\" : null}\r", "k", NULL, 0, -1, 0},
    {"{\"value\":\"\",\"key\":null,\"headers\":[]}", NULL, "", 0, -1, 0},
    {"{\"value_base64\":\"\",\"key_base64\":\"aw==\"}", "k", "", 0, -1, 0},
    {"{\"value_base64\":\"dmE=\"}", NULL, "va", 0, -1, 0},
    {"{\"value\":\"v\",\"timestamp\":5,\"partition\":3}", NULL, "v", 5, 3, 0},
    {"{\"value\":\"v\",\"topic\":{},\"offset\":\"x\",\"partition\":-1}", NULL, "v", 0, -1, 0},
    {"{\"value\":\"v\",\"headers\":[{\"key\":\"\",\"value\":null}]}", NULL, "v", 0, -1, 1},
};

Test(cli_record_json, what_people_write)
{
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        const struct good_row *row = &good[i];
        char why[CLI_RECORD_WHY_SIZE] = "";
        struct client_message m;
        enum err e = cli_record_from_json(&memory, slice_of_string(row->line), &m, why);
        cr_assert(e == ERR_OK, "%s: %s", row->line, why);
        cr_assert(same(m.key, slice_of_string(row->key)), "%s", row->line);
        cr_assert(same(m.value, slice_of_string(row->value)), "%s", row->line);
        cr_assert(eq(i64, m.timestamp, row->timestamp));
        cr_assert(eq(int, m.has_timestamp, strstr(row->line, "timestamp") != NULL));
        cr_assert(eq(int, m.partition, row->partition));
        cr_assert(eq(sz, m.headers_count, row->headers_count));
    }
}

static const struct {
    const char *line;
    const char *why;
} bad[] = {
    {"", "it is not JSON"},
    {"x", "it is not JSON"},
    {"{", "it is not JSON"},
    {"{\"value\":\"v\"} more", "it is not JSON"},
    {"{\"value\":\"v\",\"value\":\"w\"}", "it is not JSON: duplicate"},
    {"{\"value\":\"\xFF\"}", "it is not JSON"},
    {"{\"value\":\"\\ud800\"}", "it is not JSON"},
    {"{\"value\":\"v\",\"timestamp\":99999999999999999999}", "it is not JSON: too big integer"},
    {"[]", "it is a list, not {"},
    {"null", "it is null, not {"},
    {"\"v\"", "it is text, not {"},
    {"3", "it is a number, not {"},
    {"{}", "there is no 'value': write \"value\":null for a tombstone"},
    {"{\"key\":\"k\"}", "there is no 'value'"},
    {"{\"vlaue\":\"v\"}", "unknown name 'vlaue', did you mean 'value'?"},
    {"{\"value\":\"v\",\"payload\":\"v\"}", "unknown name 'payload': see 'coreflume help produce'"},
    {"{\"value\":{\"a\":1}}", "'value' is an object: write it as text in quotes, or null"},
    {"{\"value\":1}", "'value' is a number: write it as text"},
    {"{\"value\":1.5}", "'value' is a number with a point"},
    {"{\"value\":true}", "'value' is true or false"},
    {"{\"value\":\"v\",\"key\":[]}", "'key' is a list"},
    {"{\"value\":\"v\",\"value_base64\":\"\"}", "both 'value' and 'value_base64' stand there"},
    {"{\"value_base64\":null}", "'value_base64' is null: write it as text in quotes"},
    {"{\"value_base64\":\"a\"}", "'value_base64' is not base64"},
    {"{\"value_base64\":\"aw=\"}", "'value_base64' is not base64"},
    {"{\"value_base64\":\"a===\"}", "'value_base64' is not base64"},
    {"{\"value_base64\":\"aw==aw==\"}", "'value_base64' is not base64"},
    {"{\"value_base64\":\"a_-=\"}", "'value_base64' is not base64"},
    {"{\"value_base64\":\"aw\\u0000=\"}", "'value_base64' is not base64"},
    {"{\"value\":\"v\",\"timestamp\":\"5\"}", "'timestamp' is text, not a whole number"},
    {"{\"value\":\"v\",\"timestamp\":1.0}", "not a whole number"},
    {"{\"value\":\"v\",\"timestamp\":-2}", "'timestamp' is -2: it is out of range"},
    {"{\"value\":\"v\",\"partition\":2147483648}", "'partition' is 2147483648: it is out of range"},
    {"{\"value\":\"v\",\"partition\":null}", "'partition' is null"},
    {"{\"value\":\"v\",\"headers\":{}}", "'headers' is an object: write a list"},
    {"{\"value\":\"v\",\"headers\":[\"h\"]}", "a header is text: write it as {"},
    {"{\"value\":\"v\",\"headers\":[{\"value\":\"v\"}]}", "a header has no 'key'"},
    {"{\"value\":\"v\",\"headers\":[{\"key\":null,\"value\":\"v\"}]}", "a header has no 'key'"},
    {"{\"value\":\"v\",\"headers\":[{\"key\":\"k\"}]}", "a header has no 'value': write null"},
    {"{\"value\":\"v\",\"headers\":[{\"key\":\"k\",\"val\":\"v\"}]}", "did you mean 'value'?"},
};

Test(cli_record_json, what_is_wrong_is_named)
{
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char why[CLI_RECORD_WHY_SIZE] = "";
        struct client_message m;
        enum err e = cli_record_from_json(&memory, slice_of_string(bad[i].line), &m, why);
        cr_assert(eq(int, e, ERR_INVALID), "%s", bad[i].line);
        cr_assert(strstr(why, bad[i].why) != NULL, "%s: %s", bad[i].line, why);
    }
}

/* As deep as it likes. */
Test(cli_record_json, deep_nesting_is_refused)
{
    enum {
        DEPTH = 1000000,
    };
    char *line = malloc(DEPTH);
    memset(line, '[', DEPTH);
    char why[CLI_RECORD_WHY_SIZE] = "";
    struct client_message m;
    cr_assert(cli_record_from_json(&memory, slice_of(line, DEPTH), &m, why) == ERR_INVALID);
    cr_assert(strstr(why, "it is not JSON: maximum parsing depth reached") != NULL, "%s", why);
    free(line);
}
