/* The kernel's TCP over the shard's io (io_uring): the transport of production.
 *
 * Listening: shard 0 binds alone, so that a port another process has is refused, and opens the port
 * to the other shards afterwards; see bind_first in transport_kernel_listen.c. Names are resolved
 * by the system's resolver, which blocks: start-up only.
 *
 * Connecting: numeric addresses and "localhost" only; ERR_UNSUPPORTED for names. on_closed before
 * on_connected with ERR_CLOSED: the peer's machine refused; ERR_TIMED_OUT: it did not answer.
 *
 * Small data comes through the shard's pooled receive buffers, so an idle stream holds none; it
 * costs less than 1 KiB.
 *
 * Shard: the owner's.
 */
#pragma once

#include "net/transport.h"

struct shard;

/* ERR_BUSY without memory. destroy: all streams must have been freed. Listeners that are not
 * stopped, or were just now, are waited for; other completions may run meanwhile. */
enum err transport_kernel_new(struct shard *s, struct transport **ret_transport);
