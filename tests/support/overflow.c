/* Overflows, and ends well: fails only where a sanitizer ends it. */
#include <limits.h>

int main(int argc, char **argv)
{
    (void)argv;
    const volatile int most = INT_MAX;
    return most + argc == 0;
}
