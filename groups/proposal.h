/* A batch of records that a coordinator proposes. All of it is applied, or nothing.
 *
 *   proposal_new -> proposal_put... -> proposal_submit -> on_applied
 *
 * Shard: the coordinator's.
 */
#pragma once

#include <stdbool.h>

#include "cluster/cluster.h"
#include "core/err.h"
#include "core/list.h"
#include "core/slice.h"
#include "core/wbuf.h"
#include "kafka/proto/error_codes.h"
#include "storage/batch.h"

struct coordinator;
struct group;
struct group_call;

enum {
    PROPOSAL_SIZE_MAX = 64 << 20, /* Bytes of records. */
};

enum proposal_class {
    PROPOSAL_SHARED,    /* Offset commits: may overlap. */
    PROPOSAL_EXCLUSIVE, /* Everything else. */
};

struct proposal {
    struct list link; /* Of the coordinator's, in order. */
    struct coordinator *c;
    struct group *g;
    enum proposal_class class;
    struct batch_builder builder;
    struct wbuf batch;
    enum err failure; /* Of proposal_put; sticky. */
    bool is_void;     /* The coordinator resigned meanwhile; on_applied came. */
    void (*on_applied)(struct proposal *p, enum err e);
    struct group_call
        *call; /* The module's, as context: NULL, or the call that is answered then. */
    void *context;
    struct partition_op op; /* The driver's, as the two below. */
    struct list append_link;
    bool is_home;
};

/* NULL without memory. */
struct proposal *proposal_new(struct group *g,
                              enum proposal_class class,
                              void (*on_applied)(struct proposal *p, enum err e));
/* One record; a null value is a tombstone. Bytes are copied. A failure comes out at the submit. */
void proposal_put(struct proposal *p, struct slice key, struct slice value);
/* Nothing was put, so there is nothing to submit. */
static inline bool proposal_is_empty(const struct proposal *p)
{
    return p->failure == ERR_OK && p->builder.records_count == 0;
}
/* Hands p over. on_applied comes exactly once: with ERR_OK when its records are applied, else with
 * the reason: ERR_TOO_LARGE or ERR_BUSY from here (inside this call), what the append said, or
 * ERR_NOT_LEADER. p is gone after it. A proposal without records is an error of the caller. */
void proposal_submit(struct proposal *p);
/* Instead of submitting. */
void proposal_free(struct proposal *p);

/* What a failed proposal is to clients: PROTOCOL facts 16. */
enum kafka_error proposal_error(enum err e);
