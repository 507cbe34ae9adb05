/* Replicas that a client chose by hand, for one partition: on one node that node, once.
 *
 * Shard: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/slice.h"
#include "kafka/proto/error_codes.h"

struct request;

/* KAFKA_NONE, or INVALID_REPLICA_ASSIGNMENT and why, in Kafka's words and the request's memory. */
enum kafka_error assignment_check(struct request *r,
                                  const int32_t *brokers,
                                  size_t brokers_count,
                                  struct slice *ret_why);
