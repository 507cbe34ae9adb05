/* The driver of the controller engine: group 0's log on shard 0, the requests, the broadcasts.
 *
 *   request -> proposed -> appended (and applied to the engine) -> committed -> broadcast ->
 * answered
 *
 * Start:   WAIT_LOG -> WAIT_TERM -> WAIT_REGISTRATION -> SERVING
 *   1. the log is replayed into the engine;
 *   2. this start's term, one above all before, is durable in the store before anything bears it;
 *   3. the first entry of the term registers this node's new incarnation; when it is committed, all
 *      before it are.
 * Stop:    SERVING -> STOPPING -> STOPPED
 *
 * A deleted topic's logs are removed one topic after the other, in the background, by the shards
 * that own them; then the engine forgets it by another command.
 *
 * Shard: shard 0.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/err.h"
#include "core/wbuf.h"

struct cluster;
struct controller;
struct controller_driver;
struct controller_request;

/* on_ready comes once, from the loop; why says what to do when e is an error. */
typedef void controller_ready_fn(void *context, enum err e, const char *why);
struct controller_driver *
controller_driver_start(struct cluster *c, void *context, controller_ready_fn *on_ready);

/* Takes up what a crash left: logs of deleted topics. When all shards have their image. */
void controller_driver_resume_removals(struct controller_driver *d);

/* Takes the request over; answers by sending it on. */
void controller_driver_serve(struct controller_driver *d, struct controller_request *r);

/* Refuses what is not appended yet, finishes what is, closes the log; then on_stopped from the
 * loop. After on_ready. */
void controller_driver_stop(struct controller_driver *d,
                            void *context,
                            void (*on_stopped)(void *context));
/* Answers all that waits for the log with ERR_CANCELLED, now and from now on: the disk took too
 * long for a stop. Before or after controller_driver_stop. */
void controller_driver_give_up(struct controller_driver *d);
/* After on_stopped. */
void controller_driver_free(struct controller_driver *d);

/* Its log cannot be written any more: nothing changes until a restart. */
bool controller_driver_is_failed(const struct controller_driver *d);
uint64_t controller_driver_term(const struct controller_driver *d);
const struct controller *controller_driver_engine(const struct controller_driver *d);
