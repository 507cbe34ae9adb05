/* Goal: dumps are valid JSON whatever the message holds; the agreement with Kafka's own form is
 * test_golden's. Rows: the string of a one-field message, and how it comes out.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#include "kafka/proto/alter_client_quotas.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/fetch.h"

static void expect_name(const char *name, const char *expected)
{
    struct api_versions_request request;
    api_versions_request_init(&request);
    request.client_software_name = slice_of_string(name);
    char text[256];
    (void)snprintf(
        text, sizeof(text), "{\"clientSoftwareName\":%s,\"clientSoftwareVersion\":\"\"}", expected);
    struct wbuf w;
    wbuf_init(&w, 4096);
    api_versions_request_dump(&w, 3, &request);
    cr_assert(slice_equal_string(wbuf_slice(&w), text), "%.*s", (int)w.size, (const char *)w.data);
    wbuf_done(&w);
}

Test(schema_dump, strings)
{
    expect_name(NULL, "null"); /* Not allowed on the wire, yet a log line must show it. */
    expect_name("", "\"\"");
    expect_name("a\"b\\c/d", "\"a\\\"b\\\\c/d\"");
    expect_name("\b\f\n\r\t\x01\x1f\x7f", "\"\\b\\f\\n\\r\\t\\u0001\\u001F\x7f\"");
    expect_name("\xc3\xbc\xe6\x9d\xb1\xf0\x9f\x9a\x80", "\"\xc3\xbc\xe6\x9d\xb1\xf0\x9f\x9a\x80\"");
}

#define BAD "\xef\xbf\xbd"

Test(schema_dump, bytes_that_are_not_utf8_are_replaced)
{
    expect_name("\xff", "\"" BAD "\"");
    expect_name("a\x80z", "\"a" BAD "z\"");
    expect_name("\xc3", "\"" BAD "\"");                         /* Cut. */
    expect_name("\xc0\xaf", "\"" BAD BAD "\"");                 /* Too long a form. */
    expect_name("\xed\xa0\x80", "\"" BAD BAD BAD "\"");         /* A surrogate. */
    expect_name("\xf4\x90\x80\x80", "\"" BAD BAD BAD BAD "\""); /* Above the last character. */
}

static void expect_double(double value, const char *expected)
{
    struct alter_client_quotas_request_op op;
    alter_client_quotas_request_op_init(&op);
    op.value = value;
    struct alter_client_quotas_request_entry entry;
    alter_client_quotas_request_entry_init(&entry);
    entry.ops = &op;
    entry.ops_count = 1;
    struct alter_client_quotas_request request;
    alter_client_quotas_request_init(&request);
    request.entries = &entry;
    request.entries_count = 1;
    struct wbuf w;
    wbuf_init(&w, 4096);
    alter_client_quotas_request_dump(&w, 1, &request);
    wbuf_i8(&w, 0);
    cr_assert(ne(ptr, strstr((const char *)w.data, expected), NULL), "%s", (const char *)w.data);
    wbuf_done(&w);
}

Test(schema_dump, doubles)
{
    expect_double(0, "\"value\":0.0,");
    expect_double(0.1, "\"value\":0.1,");
    expect_double(-1024.25, "\"value\":-1024.25,");
    expect_double(1.0 / 3, "\"value\":0.3333333333333333,");
    expect_double(1e300, "\"value\":1e+300,");
    expect_double(__builtin_nan(""), "\"value\":\"NaN\",");
    expect_double(-__builtin_inf(), "\"value\":\"-Infinity\",");
}

/* Tagged fields with their default are not on the wire and not in the dump. */
Test(schema_dump, tagged_defaults_are_left_out)
{
    struct fetch_request request;
    fetch_request_init(&request);
    struct wbuf w;
    wbuf_init(&w, 4096);
    fetch_request_dump(&w, 18, &request);
    wbuf_i8(&w, 0);
    cr_assert(zero(ptr, strstr((const char *)w.data, "replicaState")));
    request.replica_state.replica_id = 3;
    wbuf_done(&w);
    wbuf_init(&w, 4096);
    fetch_request_dump(&w, 18, &request);
    wbuf_i8(&w, 0);
    cr_assert(
        ne(ptr,
           strstr((const char *)w.data, "\"replicaState\":{\"replicaId\":3,\"replicaEpoch\":-1}"),
           NULL));
    wbuf_done(&w);
}

Test(schema_dump, a_full_buffer_ends_it)
{
    struct fetch_request request;
    fetch_request_init(&request);
    char memory[16];
    struct wbuf w;
    wbuf_init_fixed(&w, memory, sizeof(memory));
    fetch_request_dump(&w, 18, &request);
    cr_assert(ne(int, wbuf_failure(&w), ERR_OK));
}
