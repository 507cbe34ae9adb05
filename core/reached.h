/* Marks on rare branches: reached(s, "cut_redone") tells the simulator that its seeds get there. A
 * campaign fails if a mark was never hit.
 *
 * The simulator runs the release archives, so a mark stays in production code, where it costs one
 * branch on a pointer that is NULL. Keep marks off the path of every request. Names are unique in
 * the program and are string literals: tests/sim lists them from the sources.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stddef.h>

struct reached {
    void (*hit)(struct reached *r, const char *name);
};

/* s: struct shard *. */
#define reached(s, name)                             \
    do {                                             \
        if ((s)->reached != NULL) {                  \
            (s)->reached->hit((s)->reached, (name)); \
        }                                            \
    } while (0)
