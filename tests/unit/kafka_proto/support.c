#include "tests/unit/kafka_proto/support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"

static void make_value(struct sample *s)
{
    arena_init(&s->arena, SAMPLE_ARENA_SIZE_MAX);
    s->value = calloc(1, s->message->root->size);
    assert(s->value != NULL);
    s->message->root->init(s->value);
    (void)snprintf(s->name, sizeof(s->name), "%s v%d", s->message->root->name, s->version);
}

void sample_init(struct sample *s, const struct schema_api *api, bool is_request, int16_t version)
{
    *s = (struct sample){
        .api = api,
        .message = is_request ? &api->request : &api->response,
        .version = version,
        .is_flexible = version >= api->flexible_min,
        .ignores_rest = is_request,
    };
    make_value(s);
}

void sample_init_record(struct sample *s,
                        const struct schema_record *record,
                        bool is_key,
                        int16_t version)
{
    *s = (struct sample){
        .message = is_key ? &record->key : &record->value,
        .version = version,
        .is_flexible = !is_key && version >= record->flexible_min,
        .ignores_rest = record->reads_newer,
    };
    make_value(s);
}

void sample_done(struct sample *s)
{
    free(s->value);
    arena_done(&s->arena);
}

static void *take(struct arena *a, size_t size)
{
    void *memory = arena_alloc(a, size);
    assert(memory != NULL);
    return memory;
}

static bool is_known(const struct sample *s, struct rand *random)
{
    return s->word != NULL && rand_one_in(random, 2);
}

static void fill_number(const struct sample *s, struct rand *random, void *v, size_t size)
{
    if (!is_known(s, random)) {
        rand_bytes(random, v, size);
        return;
    }
    const int64_t number = (int64_t)rand_below(random, 11) - 1;
    memcpy(v, &number, size); /* Little-endian, as all we build for. */
}

static struct slice random_slice(struct sample *s, enum schema_type type, struct rand *random)
{
    if (type == SCHEMA_STRING && is_known(s, random)) {
        return slice_of_string(s->word);
    }
    /* Long ones now and then: compact lengths of two bytes, tagged fields whose size is. */
    const size_t size = rand_below(random, rand_one_in(random, 20) ? 300 : 12);
    uint8_t *data = take(&s->arena, size);
    rand_bytes(random, data, size);
    for (size_t i = 0; i < size && type == SCHEMA_STRING; i++) {
        data[i] = (uint8_t)('a' + data[i] % 26);
    }
    return slice_of(data, size);
}

static void fill_scalar(struct sample *s, enum schema_type type, struct rand *random, void *v)
{
    switch (type) {
    case SCHEMA_BOOL:
        *(bool *)v = rand_one_in(random, 2);
        break;
    case SCHEMA_FLOAT64:
        *(double *)v = (double)rand_u64(random) / 8;
        break;
    case SCHEMA_STRING:
    case SCHEMA_BYTES:
    case SCHEMA_RECORDS:
        *(struct slice *)v = random_slice(s, type, random);
        break;
    case SCHEMA_INT8:
        fill_number(s, random, v, sizeof(int8_t));
        break;
    case SCHEMA_INT16:
    case SCHEMA_UINT16:
        fill_number(s, random, v, sizeof(int16_t));
        break;
    case SCHEMA_INT32:
        fill_number(s, random, v, sizeof(int32_t));
        break;
    case SCHEMA_INT64:
        fill_number(s, random, v, sizeof(int64_t));
        break;
    case SCHEMA_UUID:
        if (is_known(s, random)) {
            memset(v, s->word[0], sizeof(struct uuid));
        } else {
            rand_bytes(random, v, sizeof(struct uuid));
        }
        break;
    case SCHEMA_STRUCT:
        assert(false && "not a scalar");
    }
}

static void
fill_struct(struct sample *s, const struct schema_struct *type, struct rand *random, void *v);

static void fill_item(struct sample *s, const struct schema_field *f, struct rand *random, void *v)
{
    if (f->type == SCHEMA_STRUCT) {
        f->of->init(v);
        fill_struct(s, f->of, random, v);
    } else {
        fill_scalar(s, f->type, random, v);
    }
}

static void
fill_field(struct sample *s, const struct schema_field *f, struct rand *random, uint8_t *message)
{
    void *v = message + f->pos;
    const bool is_null = schema_versions_have(f->nullable, s->version) && rand_one_in(random, 4);
    if (f->is_array) {
        const size_t count = is_null ? 0 : rand_below(random, 4);
        uint8_t *items = is_null ? NULL : take(&s->arena, count * schema_item_size(f));
        for (size_t i = 0; i < count; i++) {
            fill_item(s, f, random, items + i * schema_item_size(f));
        }
        *(void **)v = items;
        *(size_t *)(void *)(message + f->count_pos) = count;
    } else if (f->is_pointer) {
        *(void **)v = is_null ? NULL : take(&s->arena, f->of->size);
        if (!is_null) {
            fill_item(s, f, random, *(void **)v);
        }
    } else if (is_null) {
        *(struct slice *)v = (struct slice){0};
    } else {
        fill_item(s, f, random, v);
    }
}

static void
fill_struct(struct sample *s, const struct schema_struct *type, struct rand *random, void *v)
{
    for (size_t i = 0; i < type->fields_count; i++) {
        const struct schema_field *f = &type->fields[i];
        const bool is_left_out = f->tag >= 0 && rand_one_in(random, 3);
        if (schema_versions_have(f->versions, s->version) && !is_left_out) {
            fill_field(s, f, random, v);
        }
    }
}

void sample_fill(struct sample *s, struct rand *random)
{
    arena_reset(&s->arena);
    s->message->root->init(s->value);
    fill_struct(s, s->message->root, random, s->value);
}

enum err sample_decode(struct sample *s, struct slice bytes, uint8_t **ret_copy)
{
    uint8_t *copy = malloc(bytes.size > 0 ? bytes.size : 1);
    assert(copy != NULL);
    if (bytes.size > 0) {
        memcpy(copy, bytes.data, bytes.size);
    }
    arena_reset(&s->arena);
    struct rbuf body = rbuf_over(copy, bytes.size);
    *ret_copy = copy;
    return s->message->decode(&body, s->version, &s->arena, s->value);
}

static void for_each_record(void (*run)(struct sample *s))
{
    for (size_t i = 0; i < SCHEMA_INTERNAL_RECORDS_COUNT; i++) {
        const struct schema_record *record = SCHEMA_INTERNAL_RECORDS[i];
        struct sample s;
        if (record->key.root != NULL) {
            sample_init_record(&s, record, true, 0);
            run(&s);
            sample_done(&s);
        }
        for (int16_t v = record->versions.min; v <= record->versions.max; v++) {
            sample_init_record(&s, record, false, v);
            run(&s);
            sample_done(&s);
        }
    }
}

void for_each_sample(void (*run)(struct sample *s))
{
    for_each_record(run);
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        const struct schema_api *api = SCHEMA_APIS[i];
        for (int16_t v = api->version_min; v <= api->version_max; v++) {
            for (int is_request = 0; is_request <= 1; is_request++) {
                struct sample s;
                sample_init(&s, api, is_request == 1, v);
                run(&s);
                sample_done(&s);
            }
        }
    }
}
