/* Every case once, in order. Meant to run under callgrind by micro.py; without it, it only checks
 * that the cases work.
 */
#include <inttypes.h>
#include <stdio.h>

#include "perf/micro/micro.h"

MICRO_SEEN void micro_begin(void)
{
    micro_keep_frame();
}

MICRO_SEEN void micro_end(const char *name, uint32_t ops_count)
{
    (void)printf("%s %" PRIu32 "\n", name, ops_count);
    micro_keep_frame();
}

MICRO_SEEN void counted_run(void (*f)(void *context), void *context)
{
    f(context);
    micro_keep_frame();
}

/* Another compiler makes other instructions. */
static const char COMPILER[] =
#if defined(__clang__)
    __VERSION__;
#else
    "gcc " __VERSION__;
#endif

int main(void)
{
    (void)printf("%s\n", COMPILER);
    node_cases();
    part_cases();
    return 0;
}
