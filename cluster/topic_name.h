/* What may be the name of a topic: Kafka's rule (Topic.validate), in Kafka's words.
 *
 * Shard: pure; any.
 */
#pragma once

#include "core/err.h"
#include "core/ids.h"
#include "core/slice.h"

enum {
    TOPIC_NAME_WHY_SIZE = 576, /* Two names (their beginnings, if they are too long) and words. */
};

/* ERR_TOPIC_NAME_INVALID; why then says what is wrong with it. */
enum err topic_name_check(struct slice name, char why[TOPIC_NAME_WHY_SIZE]);
