/* A transport without a net: one listener, connections that the case makes, bytes handed over in
 * memory. What the broker does with them is counted, what happens here is not. Frames go the way
 * that the kernel's transport sends them: whole ones to on_data, large ones into the memory that
 * the connection asked for.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"
#include "core/slice.h"
#include "net/transport.h"

struct wire {
    struct transport transport;
    struct transport_ops ops;
    struct listen_options listener;
    struct list conns; /* struct wire_conn */
};

struct wire_conn {
    struct stream stream;
    struct list link;
    void *user;
    const struct stream_user_ops *ops;
    struct list sends; /* struct stream_send */
    uint8_t *into;
    size_t into_size;
    uint8_t *answer; /* Received since the last wire_request. */
    size_t answer_size;
    size_t answer_capacity;
    bool is_close_asked;
    bool is_closed;
};

void wire_init(struct wire *w);
void wire_done(struct wire *w);

/* Accepted, or an assertion fails. */
struct wire_conn *wire_dial(struct wire *w);
void wire_hang_up(struct wire_conn *c);

/* Forgets the last answer and hands over a request, its length in front. */
void wire_request(struct wire_conn *c, struct slice frame);
/* Takes what was sent on all connections. False if there was nothing. */
bool wire_take(struct wire *w);
/* The answer, behind its length; whole, or an assertion fails. */
struct slice wire_answer(const struct wire_conn *c);
