/* A backend that sits on any other one and makes chosen ops go wrong, by rules: "the third write of
 * a file called *.log fails with ENOSPC". For tests on the real and on the simulated backend, and
 * for loops that fail the n-th op of a flow.
 *
 * The first rule that matches an op and is due decides; what no rule touches passes through
 * unchanged. Rules count the ops that match them from when they were added.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/io.h"
#include "core/list.h"

enum {
    IO_FAULT_RULES_MAX = 16,
    IO_FAULT_ANY = -1,
};

enum io_fault_action {
    IO_FAULT_FAIL,  /* Never reaches the backend; completes with -code (a positive errno). */
    IO_FAULT_SHORT, /* This attempt moves at most size bytes (> 0); io continues it. */
    IO_FAULT_DELAY, /* Starts delay_us later. */
    IO_FAULT_HANG,  /* Does not start before io_fault_release. */
};

struct io_fault_rule {
    /* What it matches. */
    int kind;              /* enum io_kind, or IO_FAULT_ANY. */
    int fd;                /* or IO_FAULT_ANY. */
    const char *path_part; /* Found in the path (of the file that fd was opened with), or NULL. */
    uint32_t at;           /* The first op it acts on: 1 = the next that matches. */
    uint32_t count;        /* How many in a row: 0 = one, UINT32_MAX = all from there on. */

    /* What happens. */
    enum io_fault_action action;
    int code;
    uint64_t size;
    uint64_t delay_us;

    uint32_t seen; /* Written here: ops that matched. */
};

struct io_fault {
    struct io_backend backend;
    struct io_backend *inner;
    struct clock *clock;
    struct io front; /* For ops that have to be changed on their way down. */
    struct io_fault_rule rules[IO_FAULT_RULES_MAX];
    uint32_t rules_count;
    struct list failed;  /* struct fault_op: complete with the next reap. */
    struct list delayed; /* struct fault_op, by time. */
    struct list hung;    /* struct fault_op */
    struct list opened;  /* struct fault_file: paths by descriptor. */
    uint64_t injected;   /* Ops a rule acted on. */
};

/* clock may be NULL if no rule delays. */
void io_fault_init(struct io_fault *b, struct io_backend *inner, struct clock *clock);
/* Nothing may be in flight. */
void io_fault_done(struct io_fault *b);

/* Copied; path_part must outlive it. Its seen starts at 0. */
void io_fault_add(struct io_fault *b, const struct io_fault_rule *rule);
void io_fault_clear(struct io_fault *b);
/* Ops of this kind seen by rule number index (in order of adding), for loops that end when a flow
 * makes fewer ops. */
uint32_t io_fault_seen(const struct io_fault *b, uint32_t index);

/* Starts what hangs. */
void io_fault_release(struct io_fault *b);
/* When the next delayed op starts, or 0 if one waits to complete, else UINT64_MAX. */
uint64_t io_fault_next_us(const struct io_fault *b);
