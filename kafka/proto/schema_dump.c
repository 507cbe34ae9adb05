/* The JSON form of messages, from their schema. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "core/assert.h"
#include "kafka/proto/schema.h"

/* Where a value lies that a field or array item holds. */
static const void *at(const void *base, size_t pos)
{
    return (const uint8_t *)base + pos;
}

static void put(struct wbuf *w, const char *text)
{
    wbuf_bytes(w, text, strlen(text));
}

static void put_number(struct wbuf *w, int64_t v)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%" PRId64, v);
    put(w, text);
}

/* The shortest digits that read back as the same value. JSON has no NaN and infinity: strings. */
static void put_double(struct wbuf *w, double v)
{
    if (!isfinite(v)) {
        put(w, isnan(v) ? "\"NaN\"" : (v > 0 ? "\"Infinity\"" : "\"-Infinity\""));
        return;
    }
    char text[32];
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof(text), "%.*g", digits, v);
        double back = 0;
        if (sscanf(text, "%lf", &back) == 1 && back == v) {
            break;
        }
    }
    put(w, text);
    if (strpbrk(text, ".e") == NULL) {
        put(w, ".0");
    }
}

/* The bytes of the UTF-8 character at data, or 0 if there is none. */
static size_t utf8_size(const uint8_t *data, size_t left)
{
    static const struct {
        uint8_t mask;
        uint8_t head;
        uint32_t code_min;
    } forms[] = {{0x80, 0x00, 0}, {0xe0, 0xc0, 0x80}, {0xf0, 0xe0, 0x800}, {0xf8, 0xf0, 0x10000}};

    for (size_t more = 0; more < 4; more++) {
        if ((data[0] & forms[more].mask) != forms[more].head) {
            continue;
        }
        if (more >= left) {
            return 0;
        }
        uint32_t code = data[0] & (uint8_t)~forms[more].mask;
        for (size_t i = 1; i <= more; i++) {
            if ((data[i] & 0xc0) != 0x80) {
                return 0;
            }
            code = code << 6 | (data[i] & 0x3f);
        }
        const bool is_surrogate = code >= 0xd800 && code <= 0xdfff;
        return code < forms[more].code_min || code > 0x10ffff || is_surrogate ? 0 : more + 1;
    }
    return 0;
}

static void put_ascii(struct wbuf *w, uint8_t c)
{
    static const char shorts[] = "\"\"\\\\\bb\ff\nn\rr\tt"; /* The character and its escape. */
    for (size_t i = 0; i + 1 < sizeof(shorts); i += 2) {
        if ((uint8_t)shorts[i] == c) {
            const char escape[] = {'\\', shorts[i + 1]};
            wbuf_bytes(w, escape, sizeof(escape));
            return;
        }
    }
    if (c < 0x20) {
        char escape[8];
        (void)snprintf(escape, sizeof(escape), "\\u%04X", c);
        put(w, escape);
        return;
    }
    wbuf_bytes(w, &c, 1);
}

static void put_string(struct wbuf *w, struct slice s)
{
    put(w, "\"");
    for (size_t i = 0; i < s.size;) {
        const size_t size = utf8_size(s.data + i, s.size - i);
        if (size == 0) {
            put(w, "\xef\xbf\xbd");
        } else if (size == 1) {
            put_ascii(w, s.data[i]);
        } else {
            wbuf_bytes(w, s.data + i, size);
        }
        i += size == 0 ? 1 : size;
    }
    put(w, "\"");
}

static void put_base64(struct wbuf *w, struct slice s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    put(w, "\"");
    for (size_t i = 0; i < s.size; i += 3) {
        const size_t count = s.size - i < 3 ? s.size - i : 3;
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++) {
            bits = bits << 8 | (k < count ? s.data[i + k] : 0);
        }
        char quad[4];
        for (size_t k = 0; k < 4; k++) {
            quad[k] = k <= count ? digits[bits >> (18 - 6 * k) & 0x3f] : '=';
        }
        wbuf_bytes(w, quad, sizeof(quad));
    }
    put(w, "\"");
}

static void put_slice(struct wbuf *w, enum schema_type type, const struct slice *s)
{
    if (slice_is_null(*s)) {
        put(w, "null");
    } else if (type == SCHEMA_RECORDS) {
        put_number(w, (int64_t)s->size);
    } else if (type == SCHEMA_STRING) {
        put_string(w, *s);
    } else {
        put_base64(w, *s);
    }
}

static int64_t read_integer(enum schema_type type, const void *v)
{
    switch (type) {
    case SCHEMA_BOOL:
        return *(const bool *)v;
    case SCHEMA_INT8:
        return *(const int8_t *)v;
    case SCHEMA_INT16:
        return *(const int16_t *)v;
    case SCHEMA_UINT16:
        return *(const uint16_t *)v;
    case SCHEMA_INT32:
        return *(const int32_t *)v;
    case SCHEMA_INT64:
        return *(const int64_t *)v;
    case SCHEMA_FLOAT64:
    case SCHEMA_UUID:
    case SCHEMA_STRING:
    case SCHEMA_BYTES:
    case SCHEMA_RECORDS:
    case SCHEMA_STRUCT:
        break;
    }
    assert(false && "not an integer");
    return 0;
}

/* One value that is neither array nor struct. */
static void put_scalar(struct wbuf *w, enum schema_type type, const void *v)
{
    char uuid_text[UUID_TEXT_SIZE];
    switch (type) {
    case SCHEMA_BOOL:
        put(w, *(const bool *)v ? "true" : "false");
        break;
    case SCHEMA_INT8:
    case SCHEMA_INT16:
    case SCHEMA_UINT16:
    case SCHEMA_INT32:
    case SCHEMA_INT64:
        put_number(w, read_integer(type, v));
        break;
    case SCHEMA_FLOAT64:
        put_double(w, *(const double *)v);
        break;
    case SCHEMA_UUID:
        uuid_format(v, uuid_text);
        put(w, "\"");
        put(w, uuid_text);
        put(w, "\"");
        break;
    case SCHEMA_STRING:
    case SCHEMA_BYTES:
    case SCHEMA_RECORDS:
        put_slice(w, type, v);
        break;
    case SCHEMA_STRUCT:
        assert(false && "not a scalar");
    }
}

static size_t scalar_size(enum schema_type type)
{
    static const uint8_t sizes[] = {[SCHEMA_BOOL] = sizeof(bool),
                                    [SCHEMA_INT8] = sizeof(int8_t),
                                    [SCHEMA_INT16] = sizeof(int16_t),
                                    [SCHEMA_UINT16] = sizeof(uint16_t),
                                    [SCHEMA_INT32] = sizeof(int32_t),
                                    [SCHEMA_INT64] = sizeof(int64_t),
                                    [SCHEMA_FLOAT64] = sizeof(double),
                                    [SCHEMA_UUID] = sizeof(struct uuid),
                                    [SCHEMA_STRING] = sizeof(struct slice),
                                    [SCHEMA_BYTES] = sizeof(struct slice),
                                    [SCHEMA_RECORDS] = sizeof(struct slice)};
    return sizes[type];
}

size_t schema_item_size(const struct schema_field *f)
{
    return f->type == SCHEMA_STRUCT ? f->of->size : scalar_size(f->type);
}

static bool is_struct_default(const struct schema_struct *s, const void *message);

static bool is_default(const struct schema_field *f, const void *message)
{
    const void *v = at(message, f->pos);
    if (f->is_array) {
        const size_t count = *(const size_t *)at(message, f->count_pos);
        const bool is_null = *(void *const *)v == NULL && f->nullable.min <= f->nullable.max;
        return count == 0 && is_null == f->is_null_by_default;
    }
    switch (f->type) {
    case SCHEMA_STRUCT:
        return f->is_pointer ? *(void *const *)v == NULL : is_struct_default(f->of, v);
    case SCHEMA_STRING:
    case SCHEMA_BYTES:
    case SCHEMA_RECORDS: {
        const struct slice *s = v;
        return s->size == 0 && slice_is_null(*s) == f->is_null_by_default;
    }
    case SCHEMA_UUID:
        return uuid_is_zero(v);
    case SCHEMA_FLOAT64:
        return *(const double *)v == 0;
    case SCHEMA_BOOL:
    case SCHEMA_INT8:
    case SCHEMA_INT16:
    case SCHEMA_UINT16:
    case SCHEMA_INT32:
    case SCHEMA_INT64:
        return read_integer(f->type, v) == f->default_number;
    }
    assert(false && "unknown type");
    return false;
}

static bool is_struct_default(const struct schema_struct *s, const void *message)
{
    for (size_t i = 0; i < s->fields_count; i++) {
        if (!is_default(&s->fields[i], message)) {
            return false;
        }
    }
    return true;
}

/* Nesting is bounded by the definitions, never by the data. */
static void
put_item(struct wbuf *w, const struct schema_field *f, int16_t version, const void *item)
{
    if (f->type == SCHEMA_STRUCT) {
        schema_dump(w, f->of, version, item);
    } else {
        put_scalar(w, f->type, item);
    }
}

static void
put_field(struct wbuf *w, const struct schema_field *f, int16_t version, const void *message)
{
    const void *v = at(message, f->pos);
    if (!f->is_array && !f->is_pointer) {
        put_item(w, f, version, v);
        return;
    }
    const void *target = *(void *const *)v;
    if (f->is_pointer || (target == NULL && schema_versions_have(f->nullable, version))) {
        if (target == NULL) {
            put(w, "null");
        } else {
            put_item(w, f, version, target);
        }
        return;
    }
    const size_t count = *(const size_t *)at(message, f->count_pos);
    put(w, "[");
    for (size_t i = 0; i < count && wbuf_failure(w) == ERR_OK; i++) {
        put(w, i > 0 ? "," : "");
        put_item(w, f, version, at(target, i * schema_item_size(f)));
    }
    put(w, "]");
}

/* Of records, unless they are null. */
static bool shows_size_only(const struct schema_field *f, const void *message)
{
    return f->type == SCHEMA_RECORDS && !slice_is_null(*(const struct slice *)at(message, f->pos));
}

void schema_dump(struct wbuf *w,
                 const struct schema_struct *s,
                 int16_t version,
                 const void *message)
{
    bool is_first = true;
    put(w, "{");
    for (size_t i = 0; i < s->fields_count; i++) {
        const struct schema_field *f = &s->fields[i];
        if (!schema_versions_have(f->versions, version)) {
            continue;
        }
        if (f->tag >= 0 && !f->is_always && is_default(f, message)) {
            continue;
        }
        put(w, is_first ? "\"" : ",\"");
        put(w, f->name);
        put(w, shows_size_only(f, message) ? "SizeInBytes\":" : "\":");
        put_field(w, f, version, message);
        is_first = false;
    }
    put(w, "}");
}
