/* The shards tell each other when their logs write: they share the disk, and reads from it that can
 * wait should make way for anybody's writes, not only for those of the own shard (log_gate.h).
 *
 * A hint goes to every other shard when the first log of a while writes, and every LOG_GATE_TELL_US
 * as long as some do; nothing is sent while none does.
 *
 * Shard: the sender's; a hint comes home.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/xmsg.h"

struct shard_dir;

struct dir_hint {
    struct xmsg msg;
    struct xmsg_hop route[2];
    struct dir_hints *hints;
    bool is_away;
};

struct dir_hints {
    struct shard_dir *dir;
    struct dir_hint *all; /* By shard. */
    uint16_t count;
    uint32_t away_count;
};

/* The directory is open. */
void dir_hints_start(struct dir_hints *h, struct shard_dir *dir);
/* None may be away. Harmless if it was never started. */
void dir_hints_done(struct dir_hints *h);
