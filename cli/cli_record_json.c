#include "cli/cli_record_json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/edit_distance.h"

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* ---- to JSON ---- */

/* NULL without memory. */
static json_t *base64_json(struct slice s)
{
    char *encoded = malloc((s.size + 2) / 3 * 4 + 1);
    if (encoded == NULL) {
        return NULL;
    }
    size_t size = 0;
    for (size_t i = 0; i < s.size; i += 3) {
        const size_t left = s.size - i;
        const uint32_t bits = (uint32_t)s.data[i] << 16 |
                              (left > 1 ? (uint32_t)s.data[i + 1] << 8 : 0) |
                              (left > 2 ? (uint32_t)s.data[i + 2] : 0);
        encoded[size++] = alphabet[bits >> 18];
        encoded[size++] = alphabet[bits >> 12 & 63];
        encoded[size++] = left > 1 ? alphabet[bits >> 6 & 63] : '=';
        encoded[size++] = left > 2 ? alphabet[bits & 63] : '=';
    }
    json_t *text = json_stringn(encoded, size);
    free(encoded);
    return text;
}

bool cli_json_set_bytes(json_t *object, const char *name, const char *name_base64, struct slice s)
{
    json_t *text = slice_is_null(s) ? json_null() : json_stringn((const char *)s.data, s.size);
    return text != NULL ? json_object_set_new(object, name, text) == 0
                        : json_object_set_new(object, name_base64, base64_json(s)) == 0;
}

json_t *cli_record_to_json(const char *topic, const struct client_record *r)
{
    json_t *object = json_pack("{s:s, s:i, s:I, s:I}",
                               "topic",
                               topic,
                               "partition",
                               r->partition,
                               "offset",
                               (json_int_t)r->offset,
                               "timestamp",
                               (json_int_t)r->timestamp);
    json_t *headers = json_array();
    bool is_whole = cli_json_set_bytes(object, "key", "key_base64", r->key);
    is_whole &= cli_json_set_bytes(object, "value", "value_base64", r->value);
    for (size_t i = 0; i < r->headers_count; i++) {
        json_t *header = json_object();
        is_whole &= cli_json_set_bytes(header, "key", "key_base64", r->headers[i].key);
        is_whole &= cli_json_set_bytes(header, "value", "value_base64", r->headers[i].value);
        is_whole &= json_array_append_new(headers, header) == 0;
    }
    is_whole &= json_object_set_new(object, "headers", headers) == 0;
    if (!is_whole) {
        json_decref(object);
        return NULL;
    }
    return object;
}

/* ---- from JSON ---- */

struct reading {
    struct cli_record_json *j;
    char *why;
};

[[gnu::format(printf, 2, 3)]] static enum err refuse(struct reading *x, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(x->why, CLI_RECORD_WHY_SIZE, format, arguments);
    va_end(arguments);
    return ERR_INVALID;
}

static const char *type_text(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return "an object";
    case JSON_ARRAY:
        return "a list";
    case JSON_STRING:
        return "text";
    case JSON_INTEGER:
        return "a number";
    case JSON_REAL:
        return "a number with a point, or a large one";
    case JSON_TRUE:
    case JSON_FALSE:
        return "true or false";
    case JSON_NULL:
        return "null";
    }
    return "of no known type";
}

static int digit_of(char c)
{
    const char *found = c == '\0' ? NULL : strchr(alphabet, c);
    return found == NULL ? -1 : (int)(found - alphabet);
}

/* Behind what was decoded before; all of a line fits. False: not base64. */
static bool
decode(struct cli_record_json *j, const char *text, size_t size, struct slice *ret_bytes)
{
    const size_t from = j->decoded_size;
    if (size % 4 != 0) {
        return false;
    }
    for (size_t i = 0; i < size; i += 4) {
        const bool is_last = i + 4 == size;
        const int padding = !is_last || text[i + 3] != '=' ? 0 : text[i + 2] == '=' ? 2 : 1;
        uint32_t bits = 0;
        for (int k = 0; k < 4; k++) {
            const int digit = k >= 4 - padding ? 0 : digit_of(text[i + (size_t)k]);
            if (digit < 0) {
                return false;
            }
            bits = bits << 6 | (uint32_t)digit;
        }
        for (int k = 0; k < 3 - padding; k++) {
            assert_cmp(j->decoded_size, <, j->decoded_capacity);
            j->decoded[j->decoded_size++] = (uint8_t)(bits >> (16 - 8 * k));
        }
    }
    *ret_bytes = slice_of(j->decoded + from, j->decoded_size - from);
    return true;
}

/* name or name_base64 of the object. *ret_is_there false: neither. */
static enum err read_bytes(struct reading *x,
                           const json_t *object,
                           const char *name,
                           struct slice *ret_bytes,
                           bool *ret_is_there)
{
    char name_base64[32];
    (void)snprintf(name_base64, sizeof(name_base64), "%s_base64", name);
    const json_t *plain = json_object_get(object, name);
    const json_t *encoded = json_object_get(object, name_base64);
    *ret_is_there = plain != NULL || encoded != NULL;
    if (plain != NULL && encoded != NULL) {
        return refuse(x, "both '%s' and '%s' stand there: leave one out", name, name_base64);
    }
    if (plain == NULL && encoded == NULL) {
        return ERR_OK;
    }
    const json_t *value = plain != NULL ? plain : encoded;
    if (json_is_null(value) && plain != NULL) {
        *ret_bytes = (struct slice){0};
        return ERR_OK;
    }
    if (!json_is_string(value)) {
        return refuse(x,
                      "'%s' is %s: write it as text in quotes%s",
                      plain != NULL ? name : name_base64,
                      type_text(value),
                      plain != NULL ? ", or null" : "");
    }
    const char *text = json_string_value(value);
    const size_t size = json_string_length(value);
    if (plain != NULL) {
        *ret_bytes = slice_of(text, size);
        return ERR_OK;
    }
    return decode(x->j, text, size, ret_bytes)
               ? ERR_OK
               : refuse(x, "'%s' is not base64 (A-Z a-z 0-9 + /, = at the end)", name_base64);
}

/* A name that nobody reads is a slip of somebody's, and what it stood for would be lost. */
static enum err check_names(struct reading *x, json_t *object, const char *const *names)
{
    const char *name = NULL;
    json_t *value = NULL;
    json_object_foreach(object, name, value)
    {
        const char *nearest = names[0];
        for (const char *const *n = names; *n != NULL; n++) {
            nearest = edit_distance(name, *n) < edit_distance(name, nearest) ? *n : nearest;
        }
        const size_t distance = edit_distance(name, nearest);
        if (distance > 0 && distance <= strlen(nearest) / 3 + 1) {
            return refuse(x, "unknown name '%.40s', did you mean '%s'?", name, nearest);
        }
        if (distance > 0) {
            return refuse(x, "unknown name '%.40s': see 'coreflume help produce'", name);
        }
    }
    return ERR_OK;
}

static enum err read_header(struct reading *x, json_t *object, struct client_header *ret_header)
{
    static const char *const names[] = {"key", "value", "key_base64", "value_base64", NULL};
    if (!json_is_object(object)) {
        return refuse(x,
                      "a header is %s: write it as {\"key\":\"...\",\"value\":\"...\"}",
                      type_text(object));
    }
    bool has_key = false;
    bool has_value = false;
    enum err e = check_names(x, object, names);
    if (e == ERR_OK) {
        e = read_bytes(x, object, "key", &ret_header->key, &has_key);
    }
    if (e == ERR_OK) {
        e = read_bytes(x, object, "value", &ret_header->value, &has_value);
    }
    if (e == ERR_OK && (!has_key || slice_is_null(ret_header->key))) {
        e = refuse(x, "a header has no 'key'");
    }
    if (e == ERR_OK && !has_value) {
        e = refuse(x, "a header has no 'value': write null if it is to have none");
    }
    return e;
}

static enum err read_headers(struct reading *x, json_t *list, struct client_message *m)
{
    struct cli_record_json *j = x->j;
    if (!json_is_array(list)) {
        return refuse(x,
                      "'headers' is %s: write a list of {\"key\":\"...\",\"value\":\"...\"}",
                      type_text(list));
    }
    const size_t count = json_array_size(list);
    if (count > j->headers_capacity) {
        struct client_header *grown = realloc(j->headers, count * sizeof(*grown));
        if (grown == NULL) {
            return ERR_BUSY;
        }
        j->headers = grown;
        j->headers_capacity = count;
    }
    for (size_t i = 0; i < count; i++) {
        j->headers[i] = (struct client_header){0};
        enum err e = read_header(x, json_array_get(list, i), &j->headers[i]);
        if (e != ERR_OK) {
            return e;
        }
    }
    m->headers = j->headers;
    m->headers_count = count;
    return ERR_OK;
}

/* -1 is none: of a partition any, of a timestamp the one of records that have none. */
static enum err read_number(
    struct reading *x, const json_t *value, const char *name, int64_t max, int64_t *ret_number)
{
    if (!json_is_integer(value)) {
        return refuse(x, "'%s' is %s, not a whole number", name, type_text(value));
    }
    const json_int_t number = json_integer_value(value);
    if (number < -1 || number > max) {
        return refuse(x, "'%s' is %" JSON_INTEGER_FORMAT ": it is out of range", name, number);
    }
    *ret_number = number;
    return ERR_OK;
}

static enum err read_place_and_time(struct reading *x, json_t *root, struct client_message *m)
{
    const json_t *partition = json_object_get(root, "partition");
    const json_t *timestamp = json_object_get(root, "timestamp");
    enum err e = ERR_OK;
    if (partition != NULL) {
        int64_t number = -1;
        e = read_number(x, partition, "partition", INT32_MAX, &number);
        m->partition = (int32_t)number;
    }
    if (e == ERR_OK && timestamp != NULL) {
        e = read_number(x, timestamp, "timestamp", INT64_MAX, &m->timestamp);
        m->has_timestamp = true;
    }
    return e;
}

static enum err read_record(struct reading *x, json_t *root, struct client_message *m)
{
    static const char *const names[] = {"topic",
                                        "partition",
                                        "offset",
                                        "timestamp",
                                        "key",
                                        "key_base64",
                                        "value",
                                        "value_base64",
                                        "headers",
                                        NULL};
    if (!json_is_object(root)) {
        return refuse(x, "it is %s, not {\"key\":...,\"value\":...}", type_text(root));
    }
    bool has_key = false;
    bool has_value = false;
    enum err e = check_names(x, root, names);
    if (e == ERR_OK) {
        e = read_bytes(x, root, "key", &m->key, &has_key);
    }
    if (e == ERR_OK) {
        e = read_bytes(x, root, "value", &m->value, &has_value);
    }
    if (e == ERR_OK && !has_value) {
        e = refuse(x, "there is no 'value': write \"value\":null for a tombstone");
    }
    if (e == ERR_OK) {
        e = read_place_and_time(x, root, m);
    }
    json_t *headers = json_object_get(root, "headers");
    if (e == ERR_OK && headers != NULL) {
        e = read_headers(x, headers, m);
    }
    return e;
}

/* Base64 is longer than what it stands for, so a line's length is always enough. */
static enum err make_room(struct cli_record_json *j, size_t size)
{
    j->decoded_size = 0;
    if (size <= j->decoded_capacity) {
        return ERR_OK;
    }
    uint8_t *grown = realloc(j->decoded, size);
    if (grown == NULL) {
        return ERR_BUSY;
    }
    j->decoded = grown;
    j->decoded_capacity = size;
    return ERR_OK;
}

enum err cli_record_from_json(struct cli_record_json *j,
                              struct slice line,
                              struct client_message *ret_message,
                              char why[CLI_RECORD_WHY_SIZE])
{
    struct reading x = {.j = j, .why = why};
    json_error_t error;
    json_decref(j->root);
    j->root = NULL;
    enum err e = make_room(j, line.size);
    if (e != ERR_OK) {
        return e;
    }
    j->root = json_loadb((const char *)line.data,
                         line.size,
                         JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY,
                         &error);
    if (j->root == NULL) {
        return json_error_code(&error) == json_error_out_of_memory
                   ? ERR_BUSY
                   : refuse(&x, "it is not JSON: %s (column %d)", error.text, error.column);
    }
    struct client_message m = {.partition = -1};
    e = read_record(&x, j->root, &m);
    if (e == ERR_OK) {
        *ret_message = m;
    }
    return e;
}

void cli_record_json_done(struct cli_record_json *j)
{
    json_decref(j->root);
    free(j->decoded);
    free(j->headers);
    *j = (struct cli_record_json){0};
}
