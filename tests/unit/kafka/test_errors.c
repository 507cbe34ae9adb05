/* Every error has a code that a client knows, and every one but success says what to do. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "kafka/errors.h"

Test(errors, every_error_has_code_and_advice)
{
    for (int e = 0; e < ERR_COUNT; e++) {
        const enum kafka_error error = kafka_error_of((enum err)e);
        cr_assert(eq(int, error == KAFKA_NONE, e == ERR_OK), "%s", err_name((enum err)e));
        cr_assert(ne(str, (char *)kafka_error_name((int16_t)error), "UNLISTED"));
        const struct slice advice = kafka_error_advice((enum err)e);
        cr_assert(eq(int, slice_is_null(advice), e == ERR_OK));
        if (e != ERR_OK) {
            cr_assert(eq(chr, (char)advice.data[advice.size - 1], '.'));
        }
    }
}

/* CLIENTS rule 10: retriable codes only for conditions that end by themselves. */
Test(errors, only_passing_conditions_are_retriable)
{
    static const enum err passing[] = {
        ERR_BUSY,
        ERR_CANCELLED,
        ERR_TIMED_OUT,
        ERR_CORRUPT, /* Damaged on the way: the copy that is sent again may be whole. */
        ERR_IO,
        ERR_NO_SPACE,
        ERR_FAILED,
        ERR_NOT_FOUND, /* Metadata may be older than the topic. */
        ERR_TOPIC_UNKNOWN,
        ERR_NOT_LEADER,
        ERR_LEADER_EPOCH_FENCED,
        ERR_LEADER_EPOCH_UNKNOWN,
    };
    for (int e = 0; e < ERR_COUNT; e++) {
        bool is_passing = false;
        for (size_t i = 0; i < sizeof(passing) / sizeof(passing[0]); i++) {
            is_passing |= passing[i] == (enum err)e;
        }
        const int16_t code = (int16_t)kafka_error_of((enum err)e);
        cr_assert(eq(int, kafka_error_is_retriable(code), is_passing), "%s", err_name((enum err)e));
    }
}
