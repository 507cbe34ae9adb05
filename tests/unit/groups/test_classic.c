/* The classic protocol in transcripts: what each state answers, and what leads from one to the
 * next. How to read them: classic_script.h. */
#include <criterion/criterion.h>

#include "tests/unit/groups/classic_script.h"

static void run(const char *script)
{
    struct rig *r = rig_new();
    play(r, script);
    rig_free(r);
}

Test(classic, one_member_comes_and_goes)
{
    run("describe => GROUP_ID_NOT_FOUND Dead type= protocol=\n"
        "join a => a join MEMBER_ID_REQUIRED\n"
        "describe => ok Empty type= protocol=\n"
        "join a\n"
        "describe => ok PreparingRebalance type=consumer protocol= a()()\n"
        "pass 0 => a join generation=1 protocol=range leader=a members=a(m)\n"
        "describe => ok CompletingRebalance type=consumer protocol= a()()\n"
        "sync a give=a:x => a sync ok assignment=x\n"
        "describe => ok Stable type=consumer protocol=range a(m)(x)\n"
        "heartbeat a => a ok\n"
        "leave a => a leave ok ok\n"
        "describe => ok Empty type=consumer protocol=\n"
        "heartbeat a => a UNKNOWN_MEMBER_ID\n"
        "join b v=3\n"
        "pass 0 => b join generation=3 protocol=range leader=b members=b(m)\n");
}
