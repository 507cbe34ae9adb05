/* clang-format off */
/* Stories of a consumer group as text: commands for a rig, and what came of each. A transcript
 * (tests/scenarios/groups) is such a text with the outcomes in it.
 *
 *   > topic t 3                     a topic of three partitions (or more of them)
 *   > no-topic t                    it is deleted
 *   > join a topics=t               ConsumerGroupHeartbeat with epoch 0, and what a client then says
 *   > beat a owned=t:0,t:1          a heartbeat with the epoch of the member's last answer
 *   > leave a | away a instance=i   epochs -1 and -2
 *   > pass 1000                     milliseconds
 *   > describe                      the group, its members in order
 *   > records                       what was written since the last time
 *   > handover | restart | hold | commit | fail
 *   > members-max 2 | migration 3   what the configuration says
 *   > full | not-full               whether groups have taken all their memory
 *   > cjoin a topics=t              JoinGroup of a classic member; cbeat, csync, cleave as well
 *
 * Options of heartbeats: epoch, instance, rack, topics (a,b), regex, assignor, timeout, owned
 * (t:0,u:1; "" is none; "all" what its last answers gave it), v (the version), group ("g"). Those
 * of cjoin besides: protocols (a,b), api (the version), sub (the version of its subscription),
 * claimed (the generation in which it had what it owns, from sub=2 on).
 */
/* clang-format on */
#pragma once

#include <stdio.h>

#include "tests/unit/groups/rig.h"

/* Runs the commands of text, and writes them with their outcomes; other lines that are not comments
 * (#) are left out. */
void consumer_script_run(const char *text, FILE *out);
