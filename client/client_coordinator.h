/* Which broker coordinates a group: FindCoordinator, and what is asked of that broker by who waits.
 * Private to client/.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client_call.h"
#include "core/arena.h"

struct client;

/* The request for one group, in all its versions; all of it in arena. False without memory. */
bool client_coordinator_fill(struct client_call *call, struct arena *arena, const char *group);

/* A request to a group's coordinator that does no harm when carried out twice. */
struct client_group_question {
    const char *group;
    int16_t api_key;
    int16_t version_max; /* 0: any. */
    void *request;
    void (*fit)(void *request, int16_t version);
    /* The answer, with its defaults; before each attempt. */
    void *response;
    void (*init_response)(void *response);
    /* The error code of an answer as a whole. */
    int16_t (*code_of)(const void *response, int16_t version);
    struct arena *arena;
    struct client_call call; /* Of the last attempt; to be done with by the caller. */
};

/* Finds the coordinator and asks it, again while it moves or loads, within the client's timeout.
 * Without the lock. ERR_OK also for answers whose code helps nobody: *ret_code. */
enum err client_group_ask(struct client *c, struct client_group_question *q, int16_t *ret_code);
