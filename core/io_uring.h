/* The io backend of production: one io_uring per shard.
 *
 * Needs Linux 6.1. The ring belongs to the thread that creates it: io_uring_backend_new and all
 * calls of io but io_uring_backend_free are made there.
 *
 * Shard: the owner's. wake is the only op that names another shard's backend; it reads nothing of
 * it but the number of its ring.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/io.h"

enum {
    IO_URING_WHY_SIZE = 256,
    IO_URING_LOCKED_SIZE = 256 * 1024, /* Of one ring; newer kernels count it as locked memory. */
};

/* On failure ret_why holds one line for the operator that names the fix.
 *   ERR_UNSUPPORTED  no io_uring here: kernel too old, disabled by sysctl, blocked by seccomp
 *   ERR_BUSY         out of memory or descriptors */
enum err io_uring_backend_new(struct io_backend **ret_backend, char ret_why[IO_URING_WHY_SIZE]);

/* In any thread, once the owner has stopped using it. Ops in flight are cancelled by the kernel and
 * never complete. Accepts NULL. */
void io_uring_backend_free(struct io_backend *b);

/* Whether this process may lock size bytes of memory: all shards' buffers and IO_URING_LOCKED_SIZE
 * for each. Without the buffers' share, I/O still works, but pays for pinning pages on each op;
 * without the rings', nothing does. ERR_NO_SPACE with one line in why that names the fix. */
enum err io_uring_check_memlock(uint64_t size, char *why, size_t why_size);
