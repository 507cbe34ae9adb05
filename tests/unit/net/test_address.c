#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <string.h>

#include "net/address_priv.h"

static const struct {
    const char *text;
    const char *host; /* NULL: refused. */
    int port;
} parse_rows[] = {
    {"127.0.0.1:9092", "127.0.0.1", 9092},
    {"localhost:0", "localhost", 0},
    {"broker-1.example:65535", "broker-1.example", 65535},
    {"[::1]:9092", "::1", 9092},
    {"[fe80::1%lo]:1", "fe80::1%lo", 1},
    {"", NULL, 0},
    {":9092", NULL, 0},
    {"host", NULL, 0},
    {"host:", NULL, 0},
    {"host:65536", NULL, 0},
    {"host:999999", NULL, 0},
    {"host:-1", NULL, 0},
    {"host:+1", NULL, 0},
    {"host: 1", NULL, 0},
    {"host:9x", NULL, 0},
    {"::1:9092", NULL, 0},
    {"[::1]", NULL, 0},
    {"[::1]9092", NULL, 0},
    {"[::1:9092", NULL, 0},
    {"[]:9092", NULL, 0},
    {"a b:1", NULL, 0},
    {"a]:1", NULL, 0},
};

/* Each text is taken as it stands, and comes back as it was, or is refused and changes nothing. */
Test(address, parse_and_format)
{
    for (size_t i = 0; i < sizeof(parse_rows) / sizeof(parse_rows[0]); i++) {
        struct net_address a;
        memset(&a, 0x5a, sizeof(a));
        struct net_address before = a;
        enum err e = net_address_parse(parse_rows[i].text, &a);
        if (parse_rows[i].host == NULL) {
            cr_assert(eq(int, e, ERR_INVALID), "text=%s", parse_rows[i].text);
            cr_assert(eq(int, memcmp(&a, &before, sizeof(a)), 0));
            continue;
        }
        cr_assert(eq(int, e, ERR_OK), "text=%s", parse_rows[i].text);
        cr_assert(eq(str, a.host, (char *)parse_rows[i].host));
        cr_assert(eq(int, a.port, parse_rows[i].port));
        char text[NET_HOST_SIZE + 8];
        net_address_format(&a, text);
        cr_assert(eq(str, text, (char *)parse_rows[i].text));
    }
}

/* The longest host that fits, and one character more. */
Test(address, host_size_limit)
{
    char text[NET_HOST_SIZE + 8];
    struct net_address a;
    memset(text, 'a', sizeof(text));
    strcpy(text + NET_HOST_SIZE - 1, ":1");
    cr_assert(eq(int, net_address_parse(text, &a), ERR_OK));
    text[NET_HOST_SIZE - 1] = 'a';
    strcpy(text + NET_HOST_SIZE, ":1");
    cr_assert(eq(int, net_address_parse(text, &a), ERR_INVALID));
}

static const struct {
    const char *text;
    const char *formatted; /* NULL: not numeric. */
} numeric_rows[] = {
    {"127.0.0.1:9092", "127.0.0.1:9092"},
    {"localhost:7", "127.0.0.1:7"},
    {"[::1]:9092", "[::1]:9092"},
    {"[2001:db8:0:0::1]:1", "[2001:db8::1]:1"},
    {"broker-1.example:1", NULL},
};

Test(address, numeric_never_asks_anybody)
{
    for (size_t i = 0; i < sizeof(numeric_rows) / sizeof(numeric_rows[0]); i++) {
        struct net_address a;
        cr_assert(eq(int, net_address_parse(numeric_rows[i].text, &a), ERR_OK));
        struct net_sockaddr sa;
        enum err e = net_sockaddr_numeric(&a, &sa);
        if (numeric_rows[i].formatted == NULL) {
            cr_assert(eq(int, e, ERR_UNSUPPORTED));
            continue;
        }
        cr_assert(eq(int, e, ERR_OK));
        char text[NET_PEER_SIZE];
        net_sockaddr_format(&sa, text);
        cr_assert(eq(str, text, (char *)numeric_rows[i].formatted));
        cr_assert(eq(int, net_sockaddr_port(&sa), a.port));
    }
}
