/* coreflume check: what of this machine helps or hurts a broker, and what to do about it.
 *
 * Probes read files of /proc and /sys below a root that tests choose, so that each rule can be
 * shown any machine. What needs the kernel itself (io_uring, limits, file systems) is in
 * cli_check_kernel.c.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cli_check_status {
    CLI_CHECK_PASS,
    CLI_CHECK_WARN, /* Slower or less safe than it could be. */
    CLI_CHECK_FAIL, /* A broker does not start here. */
};

enum {
    CLI_CHECKS_MAX = 40,
    CLI_CHECK_VALUE_SIZE = 96,
    CLI_CHECK_ADVICE_SIZE = 320,
};

struct cli_check_result {
    const char *name;
    enum cli_check_status status;
    char value[CLI_CHECK_VALUE_SIZE];
    char advice[CLI_CHECK_ADVICE_SIZE]; /* Empty if there is nothing to do. */
};

struct cli_check {
    const char *root;     /* "" on a real machine. */
    const char *data_dir; /* Where the data are to lie; need not exist yet. */
    int cores_count;
    struct cli_check_result results[CLI_CHECKS_MAX];
    size_t results_count;
};

/* Appends a result; its value and advice are set by the two below, or stay empty. */
struct cli_check_result *
cli_check_add(struct cli_check *x, const char *name, enum cli_check_status status);
[[gnu::format(printf, 2, 3)]] void
cli_check_value(struct cli_check_result *r, const char *format, ...);
[[gnu::format(printf, 2, 3)]] void
cli_check_advice(struct cli_check_result *r, const char *format, ...);

/* The first line of root + path, without its newline; false if it cannot be read. */
bool cli_check_read(const struct cli_check *x, const char *path, char *ret_line, size_t size);

/* io_uring, limits, the data directory's file system: cli_check_kernel.c. *ret_device: of the file
 * system; 0 if unknown. */
void cli_check_kernel(struct cli_check *x, uint64_t *ret_device);

/* Everything that files of /proc and /sys tell: cli_check_files.c. device 0: no disk is looked at.
 */
void cli_check_files(struct cli_check *x, uint64_t device);
