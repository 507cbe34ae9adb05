/* Addresses as text and as the socket calls want them. */
#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "core/assert.h"
#include "net/address_priv.h"

enum {
    PORT_DIGITS_MAX = 5,
    PORT_MAX = 65535,
};

static bool parse_port(const char *text, uint16_t *ret_port)
{
    size_t size = strlen(text);
    if (size == 0 || size > PORT_DIGITS_MAX) {
        return false;
    }
    uint32_t port = 0;
    for (size_t i = 0; i < size; i++) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        port = port * 10 + (uint32_t)(text[i] - '0');
    }
    if (port > PORT_MAX) {
        return false;
    }
    *ret_port = (uint16_t)port;
    return true;
}

static bool is_host(const char *text, size_t size, bool is_bracketed)
{
    if (size == 0 || size >= NET_HOST_SIZE) {
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        /* Outside of brackets a second colon would leave open where the port begins. */
        bool is_bad =
            text[i] <= ' ' || text[i] == '[' || text[i] == ']' || (text[i] == ':' && !is_bracketed);
        if (is_bad) {
            return false;
        }
    }
    return true;
}

enum err net_address_parse(const char *text, struct net_address *ret_address)
{
    assert(text != NULL);
    bool is_bracketed = text[0] == '[';
    const char *host = is_bracketed ? text + 1 : text;
    const char *host_end = strrchr(host, is_bracketed ? ']' : ':');
    if (host_end == NULL) {
        return ERR_INVALID;
    }
    const char *colon = is_bracketed ? host_end + 1 : host_end;
    size_t host_size = (size_t)(host_end - host);
    uint16_t port;
    if (*colon != ':' || !is_host(host, host_size, is_bracketed) || !parse_port(colon + 1, &port)) {
        return ERR_INVALID;
    }
    memset(ret_address, 0, sizeof(*ret_address));
    memcpy(ret_address->host, host, host_size);
    ret_address->port = port;
    return ERR_OK;
}

void net_address_format(const struct net_address *a, char *ret_text)
{
    bool is_bracketed = strchr(a->host, ':') != NULL;
    (void)snprintf(ret_text,
                   NET_HOST_SIZE + 8,
                   is_bracketed ? "[%s]:%u" : "%s:%u",
                   a->host,
                   (unsigned)a->port);
}

/* The first address getaddrinfo finds; 0 or its error. */
static int lookup(const char *host, uint16_t port, int flags, struct net_sockaddr *ret_address)
{
    char service[PORT_DIGITS_MAX + 1];
    (void)snprintf(service, sizeof(service), "%u", (unsigned)port);
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = flags | AI_NUMERICSERV,
    };
    struct addrinfo *found;
    int status = getaddrinfo(host, service, &hints, &found);
    if (status != 0) {
        return status;
    }
    assert_cmp(found->ai_addrlen, <=, sizeof(ret_address->storage));
    memset(ret_address, 0, sizeof(*ret_address));
    memcpy(&ret_address->storage, found->ai_addr, found->ai_addrlen);
    ret_address->size = found->ai_addrlen;
    freeaddrinfo(found);
    return 0;
}

enum err net_sockaddr_numeric(const struct net_address *a, struct net_sockaddr *ret_address)
{
    const char *host = strcmp(a->host, "localhost") == 0 ? "127.0.0.1" : a->host;
    return lookup(host, a->port, AI_NUMERICHOST, ret_address) == 0 ? ERR_OK : ERR_UNSUPPORTED;
}

enum err net_sockaddr_resolve(const struct net_address *a,
                              struct net_sockaddr *ret_address,
                              const char **ret_reason)
{
    if (net_sockaddr_numeric(a, ret_address) == ERR_OK) {
        return ERR_OK;
    }
    int status = lookup(a->host, a->port, AI_PASSIVE, ret_address);
    if (status != 0) {
        *ret_reason = gai_strerror(status);
        return ERR_NOT_FOUND;
    }
    return ERR_OK;
}

uint16_t net_sockaddr_port(const struct net_sockaddr *a)
{
    switch (a->storage.ss_family) {
    case AF_INET:
        return ntohs(((const struct sockaddr_in *)&a->storage)->sin_port);
    case AF_INET6:
        return ntohs(((const struct sockaddr_in6 *)&a->storage)->sin6_port);
    default:
        return 0;
    }
}

void net_sockaddr_format(const struct net_sockaddr *a, char ret_text[NET_PEER_SIZE])
{
    char host[INET6_ADDRSTRLEN + 1 + IF_NAMESIZE];
    int status = getnameinfo(
        (const struct sockaddr *)&a->storage, a->size, host, sizeof(host), NULL, 0, NI_NUMERICHOST);
    if (status != 0) {
        (void)snprintf(ret_text, NET_PEER_SIZE, "unknown");
        return;
    }
    (void)snprintf(ret_text,
                   NET_PEER_SIZE,
                   a->storage.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
                   host,
                   (unsigned)net_sockaddr_port(a));
}
