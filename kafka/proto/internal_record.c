#include "kafka/proto/internal_record.h"

#include <stdio.h>
#include <string.h>

#include "core/rbuf.h"
#include "kafka/proto/schema.h"

enum err internal_record_number(struct slice bytes, int16_t *ret_number)
{
    struct rbuf r = rbuf_over(bytes.data, bytes.size);
    const int16_t number = rbuf_i16(&r);
    if (r.failure == ERR_OK) {
        *ret_number = number;
    }
    return r.failure;
}

static void put(struct wbuf *w, const char *text)
{
    wbuf_bytes(w, text, strlen(text));
}

/* bytes: with their number. */
static enum err dump(struct wbuf *w,
                     struct arena *a,
                     const struct schema_message *m,
                     const char *number_name,
                     struct slice bytes)
{
    struct rbuf r = rbuf_over(bytes.data, bytes.size);
    const int16_t number = rbuf_i16(&r);
    void *message = arena_alloc(a, m->root->size);
    if (message == NULL) {
        return ERR_TOO_LARGE;
    }
    const int16_t version = strcmp(number_name, "version") == 0 ? number : 0;
    enum err e = r.failure != ERR_OK ? r.failure : m->decode(&r, version, a, message);
    if (e != ERR_OK) {
        return e;
    }
    char head[48];
    (void)snprintf(head, sizeof(head), "{\"%s\":%d,\"data\":", number_name, number);
    put(w, head);
    schema_dump(w, m->root, version, message);
    put(w, "}");
    return wbuf_failure(w);
}

enum err internal_record_dump_key(struct wbuf *w, struct arena *a, struct slice key)
{
    int16_t type = 0;
    enum err e = internal_record_number(key, &type);
    if (e != ERR_OK) {
        return e;
    }
    const struct schema_record *record = schema_record_find(type);
    return record == NULL ? ERR_UNSUPPORTED : dump(w, a, &record->key, "type", key);
}

enum err
internal_record_dump_value(struct wbuf *w, struct arena *a, int16_t type, struct slice value)
{
    const struct schema_record *record = schema_record_find(type);
    if (record == NULL) {
        return ERR_UNSUPPORTED;
    }
    if (slice_is_null(value)) {
        put(w, "null");
        return wbuf_failure(w);
    }
    return dump(w, a, &record->value, "version", value);
}
