/* A group of the classic protocol in words. A script is lines "event => what came of it"; it is
 * played against a rig, and every line must come out as written.
 *
 *   join NAME        [v=9 id=NAME|none|'text' as=INSTANCE protocols=range:META;... type=consumer
 *                     session=10000 rebalance=60000]
 *   sync NAME        [v=5 gen=N id= as= give=NAME:BYTES;... type= protocol=]
 *   heartbeat NAME   [v=4 gen=N id= as=]
 *   leave NAME;...   [v=5 as=]           `leave none as=i` is what an administrator does
 *   offsets NAME     [v=10 gen=N id= as=]   whether it may commit
 *   describe         [v=6]
 *   pass MS, cancel NAME, restart, handover, resign
 *   hold, write, fail ERR, release       what becomes of batches: rig.h
 *   no-topic NAME                        its offsets go, alone
 *   full                                 groups have taken all their memory
 *
 * A NAME stands for the member id that the last join under it was answered with; gen is what the
 * member knows. What came of it: all answers since the line before, "a join generation=1 leader=a
 * members=a(x),b(y)", joined by " | "; "-" is nothing. Names stand where ids were.
 */
#pragma once

#include "tests/unit/groups/rig.h"

/* Group "g". One line of script per line of text. */
void play(struct rig *r, const char *script);
