/* The message definitions as data: for what need not be fast (dump, tests, fuzzers), in place of
 * code per message. Generated next to the codecs from the same defs/<api>.def.
 *
 * Shard: any; everything here is constant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/arena.h"
#include "core/rbuf.h"
#include "core/wbuf.h"

enum schema_type {
    SCHEMA_BOOL,
    SCHEMA_INT8,
    SCHEMA_INT16,
    SCHEMA_UINT16,
    SCHEMA_INT32,
    SCHEMA_INT64,
    SCHEMA_FLOAT64,
    SCHEMA_UUID,
    SCHEMA_STRING,
    SCHEMA_BYTES,
    SCHEMA_RECORDS,
    SCHEMA_STRUCT,
};

/* Inclusive; min > max: never. */
struct schema_versions {
    int16_t min;
    int16_t max;
};

struct schema_struct;

/* How the C struct holds a field: a value at pos; an array as pointer at pos and size_t at
 * count_pos; a nullable struct as pointer at pos. */
struct schema_field {
    const char *name; /* Kafka's, as its JSON form spells it. */
    enum schema_type type;
    bool is_array;
    bool is_pointer; /* A nullable struct. */
    int16_t tag;     /* -1: not tagged. */
    struct schema_versions versions;
    struct schema_versions nullable;
    size_t pos;
    size_t count_pos;
    int64_t default_number; /* Of bool and integers. */
    bool is_null_by_default;
    bool is_always;                 /* Tagged, and written and shown even if it is null. */
    const struct schema_struct *of; /* SCHEMA_STRUCT only. */
};

struct schema_struct {
    const char *name; /* Of the C struct. */
    size_t size;
    const struct schema_field *fields;
    size_t fields_count;
    void (*init)(void *message);
};

/* One direction of one API, behind untyped pointers to its struct. */
struct schema_message {
    const struct schema_struct *root;
    enum err (*decode)(struct rbuf *body, int16_t version, struct arena *a, void *ret_message);
    enum err (*encode)(struct wbuf *w, int16_t version, const void *message);
};

struct schema_api {
    int16_t key;
    const char *name; /* As in the C names: "create_topics". */
    int16_t version_min;
    int16_t version_max;
    int16_t version_stable_max; /* Newer ones must not be advertised. */
    int16_t flexible_min;       /* INT16_MAX: never. */
    struct schema_message request;
    struct schema_message response;
};

/* All APIs, ascending by key; keys have gaps. */
extern const struct schema_api *const SCHEMA_APIS[];
extern const size_t SCHEMA_APIS_COUNT;

/* NULL if the key is not known. */
const struct schema_api *schema_api_find(int16_t key);

/* A record of an internal topic; or data that travels as bytes inside of a message. Here decode and
 * encode are of what follows the int16 in front of each: the type of a key, whose version is 0, and
 * the version of a value. */
struct schema_record {
    int16_t type;                    /* -1: data, only a value. */
    const char *name;                /* As in the C names: "offset_commit". */
    struct schema_versions versions; /* Of the value. */
    int16_t flexible_min;            /* Of the value; INT16_MAX: never. A key never is. */
    bool reads_newer;                /* Versions above the highest are read as the highest. */
    struct schema_message key;
    struct schema_message value;
};

/* All of them, ascending by type; data first, by name. */
extern const struct schema_record *const SCHEMA_INTERNAL_RECORDS[];
extern const size_t SCHEMA_INTERNAL_RECORDS_COUNT;

/* NULL if the type is not known, as -1 is not. */
const struct schema_record *schema_record_find(int16_t type);

static inline bool schema_versions_have(struct schema_versions v, int16_t version)
{
    return version >= v.min && version <= v.max;
}

static inline bool schema_api_has(const struct schema_api *api, int16_t version)
{
    return version >= api->version_min && version <= api->version_max;
}

/* Bytes one value of the field takes in memory; of an array, one item. */
size_t schema_item_size(const struct schema_field *f);

/* Appends the message as one line of JSON, as Kafka's own tools print it: fields of this version
 * in order, tagged ones only if they differ from their default, bytes in base64, of records only
 * the size (as "<name>SizeInBytes"). Strings that are not UTF-8 come out with U+FFFD. */
void schema_dump(struct wbuf *w,
                 const struct schema_struct *s,
                 int16_t version,
                 const void *message);
