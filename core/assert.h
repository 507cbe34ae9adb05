/* Assertions, always on. For our own bugs only: bytes from outside are checked, never asserted.
 *
 * Defining NDEBUG is a compile error. assert_slow is for walks over a whole structure and is
 * compiled in debug and simulation builds only (COREFLUME_SLOW_CHECKS).
 */
#pragma once

#ifdef NDEBUG
#error "NDEBUG must not be defined: assertions stay on in production"
#endif

#include <assert.h>
#include <stdint.h>

/* Both sides are shown when it fails. Integers only; evaluated once. */
#define assert_cmp(a, op, b)                                                              \
    do {                                                                                  \
        const int64_t assert_a = (int64_t)(a);                                            \
        const int64_t assert_b = (int64_t)(b);                                            \
        if (!(assert_a op assert_b)) {                                                    \
            assert_cmp_failed(__FILE__, __LINE__, #a " " #op " " #b, assert_a, assert_b); \
        }                                                                                 \
    } while (0)

#ifdef COREFLUME_SLOW_CHECKS
#define assert_slow(condition) assert(condition)
#else
#define assert_slow(condition) ((void)sizeof(condition))
#endif

_Noreturn void
assert_cmp_failed(const char *file, int line, const char *text, int64_t a, int64_t b);

/* Durability or own data lost: one line on stderr, then abort. For what must not go on. */
[[gnu::format(printf, 1, 2)]] _Noreturn void panic(const char *format, ...);
