/* Messages for tests of the codec: filled at random by their schema, and what is needed to treat
 * all APIs alike.
 */
#pragma once

#include "core/arena.h"
#include "core/rand.h"
#include "core/slice.h"
#include "kafka/proto/schema.h"

enum {
    SAMPLE_NAME_SIZE = 64,
    SAMPLE_ARENA_SIZE_MAX = 16 << 20,
};

/* Request or response of one API in one version; or key or value of a record. */
struct sample {
    const struct schema_api *api; /* NULL: of a record. */
    const struct schema_message *message;
    int16_t version;
    bool is_flexible;
    bool ignores_rest; /* What stands behind the last field does no harm. */
    void *value;       /* The C struct, with its defaults at first. */
    struct arena arena;
    char name[SAMPLE_NAME_SIZE]; /* "fetch_request v12", for failure messages. */
    /* Half of the values are what a handler may know: strings this word, all bytes of ids its first
     * letter, numbers below ten. NULL: none. */
    const char *word;
};

void sample_init(struct sample *s, const struct schema_api *api, bool is_request, int16_t version);
void sample_init_record(struct sample *s,
                        const struct schema_record *record,
                        bool is_key,
                        int16_t version);
void sample_done(struct sample *s);

/* Random values in every field that the version has, null now and then where it may be. */
void sample_fill(struct sample *s, struct rand *random);

/* Decodes a copy of the bytes that ends where its memory ends, so that a sanitizer sees a read past
 * it. The value is valid until the next decode; what it points to lies in *ret_copy (free it). */
enum err sample_decode(struct sample *s, struct slice bytes, uint8_t **ret_copy);

/* Calls run for every API, direction and version, and for every record, side and version. */
void for_each_sample(void (*run)(struct sample *s));
