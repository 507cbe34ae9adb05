/* A transport in memory, for unit tests of what stands on net/transport.h. The test plays the
 * peers: it connects, sends, reads and closes; fake_transport_run delivers, as the loop would.
 *
 * It is strict where the contract leaves room: bytes handed to on_data are gone right after it,
 * each fake_peer_send is one on_data (or several, where receive_into or pause cut it), and breaking
 * a rule of transport.h is an assertion.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/slice.h"
#include "net/transport.h"

struct fake_transport;
struct fake_peer;

struct fake_transport *fake_transport_new(void);
struct transport *fake_transport_of(struct fake_transport *ft);
/* Delivers everything that can be, until nothing is left. Returns the callbacks made. */
size_t fake_transport_run(struct fake_transport *ft);
/* Streams that the user has not freed. */
size_t fake_transport_streams_count(const struct fake_transport *ft);

/* The peer of a new connection to the listener at port; accepted, or refused, by the next run.
 * name is what on_accept gets as peer. */
struct fake_peer *fake_transport_dial(struct fake_transport *ft, uint16_t port, const char *name);
/* The test's side is done with it; the stream must be gone. */
void fake_peer_free(struct fake_peer *p);

void fake_peer_send(struct fake_peer *p, const void *data, size_t size);
/* The peer goes away in order: on_closed(ERR_CLOSED) after all it sent, or with reason at once. */
void fake_peer_close(struct fake_peer *p, enum err reason);
/* The peer sends no more, and goes on taking: on_eof after all it sent. */
void fake_peer_end(struct fake_peer *p);
/* What the user sent so far and the peer took. */
struct slice fake_peer_received(const struct fake_peer *p);
void fake_peer_forget_received(struct fake_peer *p);
/* The peer takes this many more bytes and no more. SIZE_MAX at first. */
void fake_peer_set_window(struct fake_peer *p, size_t size);

bool fake_peer_is_refused(const struct fake_peer *p);
/* The user closed the stream, or on_closed was called. */
bool fake_peer_is_closed(const struct fake_peer *p);
bool fake_peer_is_paused(const struct fake_peer *p);
/* Bytes that went straight to a receive_into. */
size_t fake_peer_into_size(const struct fake_peer *p);
/* Groups of sends that one system call could have taken (has_more). */
size_t fake_peer_flushes_count(const struct fake_peer *p);
