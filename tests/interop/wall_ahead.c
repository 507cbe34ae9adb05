/* Preloaded into a node: its wall clock is WALL_AHEAD_S seconds ahead of the machine's. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t id, struct timespec *t)
{
    const int e = (int)syscall(SYS_clock_gettime, id, t);
    const char *ahead_s = getenv("WALL_AHEAD_S");
    if (e == 0 && id == CLOCK_REALTIME && ahead_s != NULL) {
        t->tv_sec += strtol(ahead_s, NULL, 10);
    }
    return e;
}
