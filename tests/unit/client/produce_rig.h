/* Scripts of answers to Produce, and what the client sent: for tests of producers. */
#pragma once

#include "storage/batch.h"

#include "tests/unit/client/fake_broker.h"

struct produce_outcome {
    int32_t partition;
    int16_t code;
    int64_t base_offset;
    int64_t append_time_ms; /* 0: the records keep theirs. */
};

/* The next answer to Produce. */
void produce_rig_answer(struct fake_broker *b,
                        const struct produce_outcome *outcomes,
                        size_t count);
/* The next answer to InitProducerId. */
void produce_rig_answer_id(struct fake_broker *b, int64_t producer_id, int16_t epoch);

/* The only batch of the next request on a connection, which must be Produce. */
struct slice
produce_rig_batch(struct fake_broker *b, size_t connection, struct batch_header *ret_header);
