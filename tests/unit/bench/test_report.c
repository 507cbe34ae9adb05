/* Numbers as people read them. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "perf/bench/report.h"

Test(bench_report, counts_have_commas)
{
    static const struct {
        double count;
        const char *text;
    } rows[] = {{0, "0"},
                {999, "999"},
                {1000, "1,000"},
                {12345.6, "12,346"},
                {1234567, "1,234,567"},
                {1e300, "1,000,000,000,000,000"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[REPORT_TEXT_SIZE];
        (void)report_count(rows[i].count, text);
        cr_assert(eq(str, text, (char *)rows[i].text));
    }
}

Test(bench_report, times_have_three_digits)
{
    static const struct {
        uint64_t us;
        const char *text;
    } rows[] = {{0, "0 us"},
                {999, "999 us"},
                {1000, "1.00 ms"},
                {12340, "12.3 ms"},
                {999000, "999 ms"},
                {1001000, "1.00 s"},
                {3600000000ULL, "3600 s"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[REPORT_TEXT_SIZE];
        (void)report_time(rows[i].us, text);
        cr_assert(eq(str, text, (char *)rows[i].text));
    }
}
