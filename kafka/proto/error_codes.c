#include "kafka/proto/error_codes.h"

#include <stddef.h>

enum reaction {
    FINAL,
    RETRIABLE,
    STALE_METADATA,
};

struct row {
    const char *name;
    enum reaction reaction;
};

/* Codes are dense from -1 on: the row index is the code plus one. */
static const struct row rows[] = {
#define KAFKA_ERROR_ROW(name, code, reaction) [(code) + 1] = {#name, reaction},
    KAFKA_ERROR_TABLE(KAFKA_ERROR_ROW)
#undef KAFKA_ERROR_ROW
};

static const struct row *find(int16_t code)
{
    static const struct row unlisted = {"UNLISTED", FINAL};
    const size_t rows_count = sizeof(rows) / sizeof(rows[0]);
    if (code < KAFKA_UNKNOWN_SERVER_ERROR || (size_t)(code + 1) >= rows_count) {
        return &unlisted;
    }
    return &rows[code + 1];
}

const char *kafka_error_name(int16_t code)
{
    return find(code)->name;
}

bool kafka_error_is_retriable(int16_t code)
{
    return find(code)->reaction != FINAL;
}

bool kafka_error_has_stale_metadata(int16_t code)
{
    return find(code)->reaction == STALE_METADATA;
}
