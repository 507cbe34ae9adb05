/* Goal: numbers, names and reactions of the protocol's error codes. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/error_codes.h"

Test(error_codes, rows)
{
    static const struct {
        int16_t code;
        const char *name;
        bool is_retriable;
        bool has_stale_metadata;
    } rows[] = {
        {-1, "UNKNOWN_SERVER_ERROR", false, false},
        {0, "NONE", false, false},
        {1, "OFFSET_OUT_OF_RANGE", false, false},
        {3, "UNKNOWN_TOPIC_OR_PARTITION", true, true},
        {7, "REQUEST_TIMED_OUT", true, false},
        {35, "UNSUPPORTED_VERSION", false, false},
        {45, "OUT_OF_ORDER_SEQUENCE_NUMBER", false, false},
        {100, "UNKNOWN_TOPIC_ID", true, true},
        {133, "SHARE_SESSION_LIMIT_REACHED", true, false},
        {134, "UNLISTED", false, false},
        {-2, "UNLISTED", false, false},
        {INT16_MAX, "UNLISTED", false, false},
        {INT16_MIN, "UNLISTED", false, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const int16_t code = rows[i].code;
        cr_assert(
            eq(str, (char *)(uintptr_t)kafka_error_name(code), (char *)(uintptr_t)rows[i].name));
        cr_assert(eq(int, kafka_error_is_retriable(code), rows[i].is_retriable), "%d", code);
        cr_assert(
            eq(int, kafka_error_has_stale_metadata(code), rows[i].has_stale_metadata), "%d", code);
    }
}

/* The table is dense: a code without a row would be an unnamed hole. */
Test(error_codes, every_code_has_a_name)
{
    for (int16_t code = -1; code <= KAFKA_SHARE_SESSION_LIMIT_REACHED; code++) {
        cr_assert(ne(ptr, (void *)(uintptr_t)kafka_error_name(code), NULL), "%d", code);
    }
}
