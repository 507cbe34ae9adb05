/* Inside of the kernel's transport: shared by streams and listeners. */
#pragma once

#include "core/shard.h"
#include "net/address_priv.h"
#include "net/log_limit.h"
#include "net/transport_kernel.h"

struct kernel_transport {
    struct transport transport;
    struct shard *shard;
    struct list listeners;
    struct list spare_batches;
    uint32_t spare_batches_count;
    uint32_t streams_count;
    struct log_limit log_accept;
    struct log_limit log_stream;
};

static inline struct kernel_transport *kernel_of(struct transport *t)
{
    return container_of(t, struct kernel_transport, transport);
}

/* transport_kernel_listen.c */
enum err kernel_listen(struct transport *t,
                       const struct listen_options *o,
                       uint16_t *ret_port,
                       char why[NET_WHY_SIZE]);
void kernel_stop_listening(struct transport *t, const void *context);

/* transport_kernel.c: takes fd over, whatever happens. */
void kernel_stream_accepted(struct kernel_transport *kt, const struct listen_options *o, int fd);
