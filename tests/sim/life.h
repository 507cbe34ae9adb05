/* Lives of the process under test, the same for every mode: a machine is started, lives, and stops
 * in order or is abandoned by a crash; then the next one starts on the same disk.
 *
 *   draw the end -> begin -> live -> stopped in order ---------------> rest -> next life
 *                              |                                        ^
 *                              +-> dead, or the crash is due -> crashed-+
 *
 * What a mode adds stands in struct life_ops. The last life has no faults and must stop in order.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "tests/sim/machine.h"
#include "tests/sim/sim.h"

enum life_end {
    LIFE_CRASHES,
    LIFE_GETS_QUIET, /* And crashes then: everything flushed has its D persisted. */
    LIFE_STOPS,
    LIFE_IS_LAST, /* Everything is read and compared, then it stops. */
};

struct life;

struct life_ops {
    /* The machine has started; nothing of the product runs yet. */
    void (*begin)(struct life *l);
    /* Lives to the end. A crash comes between two steps, or while blocking code waits, at the start
     * and at the end. True if the product stopped in order and gave everything back but the
     * machine.
     */
    bool (*live)(struct life *l);
    /* The machine has crashed: nothing of this life is there any more. */
    void (*crashed)(struct life *l);
    /* Between two lives, when only the disk is there. NULL = nothing to do. */
    void (*rest)(struct life *l);
    /* After every step. NULL = nothing to do. */
    void (*stepped)(struct life *l);
    /* Says what is under way, when nothing happens any more. NULL = nothing to say. */
    void (*say)(const struct life *l);
};

struct life {
    struct sim *sim;
    const struct life_ops *ops;
    struct machine machine;
    enum life_end end;
    bool is_dead;         /* The product gave up because of a fault: this life is over. */
    bool is_full_allowed; /* The disk may be full, or was. */
    bool is_over;         /* What happened ends the run: there is no next life. */
    bool is_quiet;        /* It ended with D persisted for everything that was flushed. */
};

/* All lives of a run. */
void lives_run(struct life *l, struct sim *sim, const struct life_ops *ops);

/* Between two lives: run, in a process of its own that blocks. True: it ended, and said so; else it
 * gave up, or crashed, within crash_steps if they are not 0. */
bool life_run_tool(struct life *l, uint64_t crash_steps, bool (*run)(struct life *l));

/* One step. False: this life is over. Having nothing to do is a failure that names what. */
bool life_step(struct life *l, const char *what);
/* Steps until *is_done. False: this life is over. */
bool life_until(struct life *l, const bool *is_done, const char *what);
/* The crash comes at one of the next steps, early ones as likely as late ones. */
void life_crash_within(struct life *l, uint64_t steps);

/* An injected fault explains a failure of the product. */
bool life_has_faults(const struct life *l);
/* The disk gets full, or has room again, at times. */
void life_play_with_capacity(struct life *l);
