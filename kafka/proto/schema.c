#include "kafka/proto/schema.h"

const struct schema_api *schema_api_find(int16_t key)
{
    if (key < 0) {
        return NULL;
    }
    /* The place of a key is the key, less the gaps below it: none below those that matter. */
    size_t place = (size_t)key < SCHEMA_APIS_COUNT ? (size_t)key : SCHEMA_APIS_COUNT - 1;
    while (place > 0 && SCHEMA_APIS[place]->key > key) {
        place--;
    }
    return SCHEMA_APIS[place]->key == key ? SCHEMA_APIS[place] : NULL;
}

const struct schema_record *schema_record_find(int16_t type)
{
    for (size_t i = 0; i < SCHEMA_INTERNAL_RECORDS_COUNT && type >= 0; i++) {
        if (SCHEMA_INTERNAL_RECORDS[i]->type == type) {
            return SCHEMA_INTERNAL_RECORDS[i];
        }
    }
    return NULL;
}
