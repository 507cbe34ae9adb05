/* The process: `coreflume start` is the broker, every other subcommand is cli's. */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <string.h>
#include <unistd.h>

#include "broker/start.h"
#include "cli/cli.h"

enum {
    /* Per thread; the largest free end of its heap that is kept. */
    MALLOC_TRIM_SIZE = 16 << 20,
    MALLOC_MMAP_SIZE = 4 << 20,
};

/* By itself malloc gives memory back as soon as 128 KiB are free at its end, and maps every larger
 * piece anew. The buffers that compressed batches are checked in come and go with each batch: they
 * cost page faults of several times the work itself (125 instead of 26 microseconds for lz4). */
static void keep_memory(void)
{
    (void)mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_SIZE);
    (void)mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_SIZE);
}

/* A standard stream that whoever started us has closed must not be the next file that is opened:
 * log lines would go into it, and input be read from it. It becomes one that fails as a closed one
 * does: opened the other way round. */
static void reserve_standard_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        if (fcntl(fd, F_GETFD) == -1 && errno == EBADF) {
            /* The lowest that is free: this one. */
            (void)open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
        }
    }
}

int main(int argc, char **argv)
{
    reserve_standard_streams();
    if (argc > 1 && strcmp(argv[1], "start") == 0) {
        keep_memory();
        return start_main(argc - 1, argv + 1);
    }
    return cli_main(argc, argv);
}
