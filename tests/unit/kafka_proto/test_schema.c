/* Goal: the table is what a dispatcher needs: sorted, complete, consistent. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/api_keys.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/record_types.h"
#include "kafka/proto/schema.h"

Test(schema, the_table_is_sorted_and_found_by_key)
{
    int previous = -1;
    for (size_t i = 0; i < SCHEMA_APIS_COUNT; i++) {
        const struct schema_api *api = SCHEMA_APIS[i];
        cr_assert(lt(int, previous, api->key));
        cr_assert(eq(ptr, (void *)(uintptr_t)schema_api_find(api->key), (void *)(uintptr_t)api));
        cr_assert(le(int, api->version_min, api->version_stable_max));
        cr_assert(le(int, api->version_stable_max, api->version_max));
        previous = api->key;
    }
    cr_assert(zero(ptr, (void *)(uintptr_t)schema_api_find(-1)));
    cr_assert(zero(ptr, (void *)(uintptr_t)schema_api_find(4)));
    cr_assert(zero(ptr, (void *)(uintptr_t)schema_api_find((int16_t)(previous + 1))));
}

Test(schema, records_are_sorted_and_found_by_type)
{
    int previous = -1;
    for (size_t i = 0; i < SCHEMA_INTERNAL_RECORDS_COUNT; i++) {
        const struct schema_record *record = SCHEMA_INTERNAL_RECORDS[i];
        cr_assert(le(int, previous, record->type));
        cr_assert(eq(int, record->type < 0, record->key.root == NULL), "%s", record->name);
        const struct schema_record *found = schema_record_find(record->type);
        cr_assert(found == (record->type < 0 ? NULL : record), "%s", record->name);
        previous = record->type;
    }
    cr_assert(schema_record_find(RECORD_CONSUMER_GROUP_REGULAR_EXPRESSION) != NULL);
    cr_assert(schema_record_find(9) == NULL);
    cr_assert(schema_record_find(INT16_MIN) == NULL);
}

/* Kafka 4.3: what must not be advertised, and what is never flexible. */
Test(schema, exceptions)
{
    cr_assert(eq(int, INIT_PRODUCER_ID_VERSION_MAX, 5));
    cr_assert(eq(int, schema_api_find(API_INIT_PRODUCER_ID)->version_max, 6));
    cr_assert(eq(int, schema_api_find(API_SASL_HANDSHAKE)->flexible_min, INT16_MAX));
    cr_assert(eq(int, schema_api_find(API_OFFSET_DELETE)->flexible_min, INT16_MAX));
    cr_assert(eq(int, schema_api_find(API_PRODUCE)->version_min, 3));
}
