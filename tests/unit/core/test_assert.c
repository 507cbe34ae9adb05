/* Broken invariants end the process. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <signal.h>

#include "core/assert.h"
#include "core/err.h"

Test(assert, cmp_evaluates_once)
{
    int calls = 0;
    assert_cmp(++calls, ==, 1);
    cr_assert(eq(int, calls, 1));
}

Test(assert, cmp_aborts, .signal = SIGABRT)
{
    assert_cmp(1, >, 2);
}

Test(assert, panic_aborts, .signal = SIGABRT)
{
    panic("disk=%d", 7);
}

Test(assert, errors_have_names)
{
    cr_assert(eq(str, (char *)err_name(ERR_OK), "OK"));
    cr_assert(eq(str, (char *)err_name(ERR_LOCKED), "LOCKED"));
    for (int e = 0; e < ERR_COUNT; e++) {
        cr_assert(ne(str, (char *)err_name((enum err)e), "UNKNOWN"));
    }
    cr_assert(eq(str, (char *)err_name(ERR_COUNT), "UNKNOWN"));
}
