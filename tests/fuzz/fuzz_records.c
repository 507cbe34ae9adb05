/* What people and programs feed to produce: lines of JSON, and formats with input that they are to
 * read. The first byte chooses. What could be read is printed, and read again: the same.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/cli_format_read.h"
#include "cli/cli_record_json.h"
#include "core/assert.h"

#include "tests/fuzz/fuzz.h"

static bool same(struct slice a, struct slice b)
{
    return slice_is_null(a) == slice_is_null(b) && slice_equal(a, b);
}

static void check_same(const struct client_message *a, const struct client_message *b)
{
    assert(same(a->key, b->key));
    assert(same(a->value, b->value));
    assert(a->headers_count == b->headers_count);
    for (size_t i = 0; i < a->headers_count; i++) {
        assert(same(a->headers[i].key, b->headers[i].key));
        assert(same(a->headers[i].value, b->headers[i].value));
    }
}

static struct client_record record_of(const struct client_message *m)
{
    return (struct client_record){
        .partition = m->partition,
        .timestamp = m->timestamp,
        .key = m->key,
        .value = m->value,
        .headers = m->headers,
        .headers_count = m->headers_count,
    };
}

static void try_json(struct slice line)
{
    struct cli_record_json first = {0};
    struct cli_record_json second = {0};
    char why[CLI_RECORD_WHY_SIZE];
    struct client_message m;
    struct client_message again;
    enum err e = cli_record_from_json(&first, line, &m, why);
    assert(e == ERR_OK || (e == ERR_INVALID && strlen(why) > 0));
    if (e == ERR_OK) {
        const struct client_record r = record_of(&m);
        json_t *json = cli_record_to_json("t", &r);
        char *text = json_dumps(json, JSON_COMPACT);
        e = cli_record_from_json(&second, slice_of_string(text), &again, why);
        assert(e == ERR_OK);
        check_same(&m, &again);
        free(text);
        json_decref(json);
    }
    cli_record_json_done(&first);
    cli_record_json_done(&second);
}

/* Copies, so that a sanitizer sees a read past the end. */
static enum err
read_one(struct cli_format_reader *r, struct slice bytes, bool is_all, struct client_message *m)
{
    uint8_t *copy = malloc(bytes.size);
    memcpy(copy, bytes.data, bytes.size);
    size_t size = 0;
    enum err e = cli_format_read(r, slice_of(copy, bytes.size), is_all, m, &size);
    assert(e == ERR_OK || e == ERR_EOF || (e == ERR_INVALID && strlen(r->why) > 0));
    assert(e != ERR_EOF || !is_all);
    if (e == ERR_OK) {
        assert(size > 0);
        assert(size <= bytes.size);
    }
    free(copy);
    return e;
}

/* format, a zero, input. */
static void try_format(struct slice input, bool has_null_text)
{
    const uint8_t *zero = memchr(input.data, 0, input.size);
    struct cli_format f;
    char why[CLI_FORMAT_WHY_SIZE];
    if (zero == NULL || cli_format_init(&f, (const char *)input.data, "t", why) != ERR_OK) {
        return;
    }
    f.null_text = slice_of_string(has_null_text ? "NULL" : NULL);
    struct cli_format_reader r;
    if (cli_format_reader_init(&r, &f) == ERR_OK) {
        struct slice rest = slice_of(zero + 1, input.size - (size_t)(zero + 1 - input.data));
        /* Cut anywhere; long input only here and there. */
        const size_t step = rest.size / 256 + 1;
        for (size_t size = 1; size <= rest.size; size += step) {
            struct client_message m;
            (void)read_one(&r, slice_of(rest.data, size), false, &m);
            (void)read_one(&r, slice_of(rest.data, size), true, &m);
        }
    }
    cli_format_reader_done(&r);
    cli_format_done(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    const struct slice input = slice_of(data + 1, size - 1);
    if (data[0] % 2 == 0) {
        try_json(input);
    } else {
        try_format(input, data[0] % 4 == 1);
    }
    return 0;
}
