/* A record as a line of JSON, both ways: what consume --json prints, produce --json reads.
 *
 *     {"topic","partition","offset","timestamp","key","value","headers":[{"key","value"}]}
 *
 * Rules
 * 1. Bytes that are not UTF-8 stand in key_base64 and value_base64 instead of key and value.
 * 2. null is null, "" is empty.
 * 3. Of a line that is read, value is required, so that no tombstone is written by a slip; topic
 *    and offset are where the record once was, and mean nothing. Unknown names are refused.
 *
 * One thread, no shard.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/client.h"
#include "core/err.h"
#include "core/slice.h"

enum {
    CLI_RECORD_WHY_SIZE = 256,
};

/* Adds name, text or null; or, if the bytes are not UTF-8, name_base64 instead. False without
 * memory. */
bool cli_json_set_bytes(json_t *object, const char *name, const char *name_base64, struct slice s);
/* The caller frees it. NULL without memory. */
json_t *cli_record_to_json(const char *topic, const struct client_record *r);

/* Memory of what was read; all zeros to begin with. */
struct cli_record_json {
    json_t *root;
    uint8_t *decoded; /* What stood there in base64. */
    size_t decoded_size;
    size_t decoded_capacity;
    struct client_header *headers;
    size_t headers_capacity;
};

/* One line. ret_message's slices and headers are valid until the next call; its partition is -1 if
 * the line has none.
 *   ERR_INVALID  the line is none of these: why says what is wrong with it
 *   ERR_BUSY     no memory */
enum err cli_record_from_json(struct cli_record_json *j,
                              struct slice line,
                              struct client_message *ret_message,
                              char why[CLI_RECORD_WHY_SIZE]);
void cli_record_json_done(struct cli_record_json *j);
