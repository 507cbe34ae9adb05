/* The rings under xmsg.h, for shard.c only.
 *
 * One single-producer single-consumer ring per ordered pair of shards. This module holds all the
 * atomics of the program:
 *   ring.tail   written by the producer, ring.head by the consumer; release/acquire
 *   is_sleeping, hears_quiet of a shard: set by itself before it sleeps, taken by whoever wakes it
 *   shards[]    published once by shard_init
 *
 * Why no wake is lost: both sides use a read-modify-write on is_sleeping. If the sender's comes
 * second, it sees true and wakes. If it comes first, the sleeper's exchange synchronizes with it
 * and therefore sees the message when it looks into the rings once more before it sleeps. The same
 * holds of hears_quiet, which the sleeper sets first and a sender of quiet messages takes first: it
 * goes on to is_sleeping only if it saw true.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/xmsg.h"

struct shard;
struct shard_group;
struct xmsg_port;

enum err xmsg_port_new(struct shard_group *g, uint16_t id, struct xmsg_port **ret_port);
/* Accepts NULL. Undelivered messages are forgotten; their owners are gone by now. */
void xmsg_port_free(struct xmsg_port *port);

/* Makes s known to those who may have to wake it; NULL takes it back. */
void xmsg_publish_shard(struct shard_group *g, uint16_t id, struct shard *s);

/* Runs at most budget messages of other shards that were there at the start; returns how many. */
size_t xmsg_run(struct shard *s, size_t budget);

/* Messages to oneself, and those that they send, as far as the budget goes: what goes from function
 * to function of one shard arrives in one turn (docs/decisions/0026). */
size_t xmsg_run_own(struct shard *s, size_t budget);

/* Moves the outboxes on and wakes whom we sent something to and who sleeps. */
void xmsg_flush(struct shard *s);

/* Messages to run, or held back by a full ring. */
bool xmsg_has_work(const struct shard *s);

/* After true the shard may sleep, and must call xmsg_end_sleep when it is up again. False: a
 * message is there. */
bool xmsg_begin_sleep(struct shard *s);
void xmsg_end_sleep(struct shard *s);
