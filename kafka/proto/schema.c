#include "kafka/proto/schema.h"

const struct schema_api *schema_api_find(int16_t key)
{
    size_t low = 0;
    size_t high = SCHEMA_APIS_COUNT;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (SCHEMA_APIS[middle]->key == key) {
            return SCHEMA_APIS[middle];
        }
        if (SCHEMA_APIS[middle]->key < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return NULL;
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
