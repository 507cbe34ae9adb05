/* Our errors as the Kafka protocol says them: the only place where the two lists meet.
 *
 * The code is chosen by what the client should do, not by what happened here: a condition that ends
 * by itself gets a retriable code, a permanent one never does (a client would retry it without a
 * word to its user).
 *
 * Shard: any; pure.
 */
#pragma once

#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"
#include "kafka/proto/error_codes.h"

/* Never KAFKA_NONE but for ERR_OK. */
enum kafka_error kafka_error_of(enum err e);

/* What to do about it, for error_message fields; null for ERR_OK. Static text. */
struct slice kafka_error_advice(enum err e);
