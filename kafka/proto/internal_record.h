/* Records of internal topics whose type is not known beforehand: what is replayed is told apart by
 * the number in front of its key, and then read by <name>_record.h; what people look at becomes
 * JSON.
 *
 * Shard: any; owns nothing.
 */
#pragma once

#include <stdint.h>

#include "core/arena.h"
#include "core/err.h"
#include "core/slice.h"
#include "core/wbuf.h"

/* The int16 in front: of a key its type (enum record_type, or one that is not known), of a value or
 * of data its version. ERR_EOF. */
enum err internal_record_number(struct slice bytes, int16_t *ret_number);

/* Appends one line of JSON, as Kafka's own tool shows it: {"type":1,"data":{...}}. The arena is for
 * what is decoded. ERR_UNSUPPORTED  the type is not known ERR_EOF, ERR_CORRUPT, ERR_TOO_LARGE  as
 * of decoding */
enum err internal_record_dump_key(struct wbuf *w, struct arena *a, struct slice key);

/* Likewise of the value of a record of that type: {"version":4,"data":{...}}, or null for a
 * tombstone. ERR_UNSUPPORTED also if the version is not known. */
enum err
internal_record_dump_value(struct wbuf *w, struct arena *a, int16_t type, struct slice value);
