#include "tests/unit/client/produce_rig.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/api_keys.h"
#include "kafka/proto/init_producer_id.h"
#include "kafka/proto/produce.h"

void produce_rig_answer(struct fake_broker *b, const struct produce_outcome *outcomes, size_t count)
{
    struct produce_response response;
    struct produce_response_topic topic;
    struct produce_response_partition partitions[FAKE_PARTITIONS_MAX];
    produce_response_init(&response);
    produce_response_topic_init(&topic);
    topic.name = slice_of_string("t");
    topic.topic_id = (struct uuid){.bytes = {7}};
    topic.partition_responses = partitions;
    topic.partition_responses_count = count;
    for (size_t i = 0; i < count; i++) {
        produce_response_partition_init(&partitions[i]);
        partitions[i].index = outcomes[i].partition;
        partitions[i].error_code = outcomes[i].code;
        partitions[i].base_offset = outcomes[i].base_offset;
        partitions[i].log_append_time_ms =
            outcomes[i].append_time_ms != 0 ? outcomes[i].append_time_ms : -1;
    }
    response.responses = &topic;
    response.responses_count = 1;
    fake_broker_answer(b, API_PRODUCE, &response);
}

void produce_rig_answer_id(struct fake_broker *b, int64_t producer_id, int16_t epoch)
{
    struct init_producer_id_response response;
    init_producer_id_response_init(&response);
    response.producer_id = producer_id;
    response.producer_epoch = epoch;
    fake_broker_answer(b, API_INIT_PRODUCER_ID, &response);
}

struct slice
produce_rig_batch(struct fake_broker *b, size_t connection, struct batch_header *ret_header)
{
    struct produce_request request;
    cr_assert(fake_broker_request(b, connection, API_PRODUCE, &request));
    cr_assert(eq(sz, request.topic_data_count, 1));
    cr_assert(eq(sz, request.topic_data[0].partition_data_count, 1));
    const struct slice batch = request.topic_data[0].partition_data[0].records;
    cr_assert(batch_header_decode(batch, ret_header) == ERR_OK);
    cr_assert(batch_crc_matches(batch));
    return batch;
}
