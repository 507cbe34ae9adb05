#include "kafka/api_table.h"

#include <stddef.h>

#include "kafka/handlers/handlers.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/create_topics.h"
#include "kafka/proto/delete_records.h"
#include "kafka/proto/delete_topics.h"
#include "kafka/proto/fetch.h"
#include "kafka/proto/find_coordinator.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/list_offsets.h"
#include "kafka/proto/metadata.h"
#include "kafka/proto/produce.h"

/* Produce lists 0-2 and refuses them: librdkafka up to 2.11.0 compresses only for brokers that list
 * version 0 (KAFKA-18659). */
/* clang-format off */
const struct api API_TABLE[API_COUNT] = {
    /* key                  listed  served  max  class         quota */
    {API_PRODUCE,           0,      3,      13,  CONN_OVERLAP, API_QUOTA_PRODUCE,    &PRODUCE_API,          handle_produce},
    {API_FETCH,             4,      4,      18,  CONN_BARRIER, API_QUOTA_FETCH,      &FETCH_API,            handle_fetch},
    {API_LIST_OFFSETS,      1,      1,      11,  CONN_BARRIER, API_QUOTA_REQUEST,    &LIST_OFFSETS_API,     handle_list_offsets},
    {API_METADATA,          0,      0,      13,  CONN_BARRIER, API_QUOTA_REQUEST,    &METADATA_API,         handle_metadata},
    {API_FIND_COORDINATOR,  0,      0,      6,   CONN_BARRIER, API_QUOTA_REQUEST,    &FIND_COORDINATOR_API, handle_find_coordinator},
    {API_API_VERSIONS,      0,      0,      4,   CONN_BARRIER, API_QUOTA_NONE,       &API_VERSIONS_API,     handle_api_versions},
    {API_CREATE_TOPICS,     2,      2,      7,   CONN_BARRIER, API_QUOTA_CONTROLLER, &CREATE_TOPICS_API,    handle_create_topics},
    {API_DELETE_TOPICS,     1,      1,      6,   CONN_BARRIER, API_QUOTA_CONTROLLER, &DELETE_TOPICS_API,    handle_delete_topics},
    {API_DELETE_RECORDS,    0,      0,      2,   CONN_BARRIER, API_QUOTA_REQUEST,    &DELETE_RECORDS_API,   handle_delete_records},
    {API_INIT_PRODUCER_ID,  0,      0,      5,   CONN_BARRIER, API_QUOTA_REQUEST,    &INIT_PRODUCER_ID_API, handle_init_producer_id},
};
/* clang-format on */

const struct api *api_find(int16_t key)
{
    for (size_t i = 0; i < API_COUNT; i++) {
        if (API_TABLE[i].key == key) {
            return &API_TABLE[i];
        }
    }
    return NULL;
}
