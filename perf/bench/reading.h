/* A window without producers: consumers read, and what they read is counted. See bench.h.
 *
 * Private to perf/bench/. The thread that called bench_run.
 */
#pragma once

#include "perf/bench/window.h"

/* Until the duration is over, everything was read, somebody wants it to end, or a consumer gave up.
 * What the consumers read before is not counted. */
void reading_run(struct run *r, struct bench_reading *ret);
