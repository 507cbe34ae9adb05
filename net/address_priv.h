/* Addresses as the socket calls want them.
 *
 * Shard: any; net_sockaddr_resolve blocks and is for start-up only.
 */
#pragma once

#include <sys/socket.h>

#include "net/transport.h"

struct net_sockaddr {
    struct sockaddr_storage storage;
    socklen_t size;
};

/* Numeric addresses and "localhost" (127.0.0.1) only, never blocks. ERR_UNSUPPORTED for a name. */
enum err net_sockaddr_numeric(const struct net_address *a, struct net_sockaddr *ret_address);

/* Names too, by the system's resolver. ERR_NOT_FOUND: *ret_reason says why, a constant string. */
enum err net_sockaddr_resolve(const struct net_address *a,
                              struct net_sockaddr *ret_address,
                              const char **ret_reason);

/* "1.2.3.4:5" or "[::1]:5". */
void net_sockaddr_format(const struct net_sockaddr *a, char ret_text[NET_PEER_SIZE]);
uint16_t net_sockaddr_port(const struct net_sockaddr *a);
