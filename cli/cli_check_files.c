/* Checks that read files of /proc and /sys. A file that is not there says nothing: no result. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "cli/cli_check.h"
#include "cli/cli_parse.h"

enum {
    LINE_SIZE = 512,
    PATH_SIZE = 128,
    BACKLOG_GOOD = 4096,
};

static bool read_number(const struct cli_check *x, const char *path, int64_t *ret_number)
{
    char line[LINE_SIZE];
    return cli_check_read(x, path, line, sizeof(line)) && cli_parse_number(line, ret_number);
}

/* The word that stands in brackets: "always [madvise] never"; else the whole line. */
static void chosen_word(const char *line, char ret_word[LINE_SIZE])
{
    const char *open = strchr(line, '[');
    const char *close = open == NULL ? NULL : strchr(open, ']');
    if (close == NULL) {
        (void)snprintf(ret_word, LINE_SIZE, "%s", line);
        return;
    }
    (void)snprintf(ret_word, LINE_SIZE, "%.*s", (int)(close - open - 1), open + 1);
}

/* ---- memory ---- */

static bool has_swap(const struct cli_check *x)
{
    char line[LINE_SIZE];
    char path[LINE_SIZE];
    /* /proc/swaps: a heading, then a line per device. */
    (void)snprintf(path, sizeof(path), "%s/proc/swaps", x->root);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return true;
    }
    size_t lines = 0;
    while (fgets(line, sizeof(line), file) != NULL) {
        lines++;
    }
    (void)fclose(file);
    return lines > 1;
}

static void check_swap(struct cli_check *x)
{
    const int64_t good_max = 1;
    int64_t swappiness = 0;
    if (!read_number(x, "/proc/sys/vm/swappiness", &swappiness)) {
        return;
    }
    const bool is_swapping = has_swap(x);
    const bool is_good = !is_swapping || swappiness <= good_max;
    struct cli_check_result *r =
        cli_check_add(x, "swappiness", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%lld%s", (long long)swappiness, is_swapping ? "" : ", no swap");
    if (!is_good) {
        cli_check_advice(
            r,
            "swapped memory stalls a shard for milliseconds: sysctl -w vm.swappiness=1 "
            "(and in /etc/sysctl.d)");
    }
}

static void check_huge_pages(struct cli_check *x)
{
    char line[LINE_SIZE];
    char word[LINE_SIZE];
    if (!cli_check_read(x, "/sys/kernel/mm/transparent_hugepage/enabled", line, sizeof(line))) {
        return;
    }
    chosen_word(line, word);
    const bool is_good = strcmp(word, "never") != 0;
    struct cli_check_result *r =
        cli_check_add(x, "huge pages", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%.40s", word);
    if (!is_good) {
        cli_check_advice(r,
                         "buffers cost more TLB misses: echo madvise > "
                         "/sys/kernel/mm/transparent_hugepage/enabled");
    }
}

/* ---- processors ---- */

static void check_clock_source(struct cli_check *x)
{
    char line[LINE_SIZE];
    const char *path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    if (!cli_check_read(x, path, line, sizeof(line))) {
        return;
    }
    static const char *const fast[] = {
        "tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"};
    bool is_good = false;
    for (size_t i = 0; i < sizeof(fast) / sizeof(fast[0]); i++) {
        is_good |= strcmp(line, fast[i]) == 0;
    }
    struct cli_check_result *r =
        cli_check_add(x, "clock source", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%.40s", line);
    if (!is_good) {
        cli_check_advice(r,
                         "reading the clock is a system call with it: boot with clocksource=tsc if "
                         "the processor's tsc is stable");
    }
}

static void check_governor(struct cli_check *x)
{
    char line[LINE_SIZE];
    const char *path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor";
    if (!cli_check_read(x, path, line, sizeof(line))) {
        return; /* A virtual machine: the host decides. */
    }
    const bool is_good = strcmp(line, "performance") == 0;
    struct cli_check_result *r =
        cli_check_add(x, "CPU governor", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%.40s", line);
    if (!is_good) {
        cli_check_advice(r,
                         "clock changes are tail latency: cpupower frequency-set -g performance");
    }
}

static void check_numa(struct cli_check *x)
{
    int64_t is_balancing = 0;
    char line[LINE_SIZE];
    if (!read_number(x, "/proc/sys/kernel/numa_balancing", &is_balancing) || is_balancing == 0) {
        return;
    }
    /* "0" on a machine with one node, "0-1" with two. */
    if (!cli_check_read(x, "/sys/devices/system/node/online", line, sizeof(line)) ||
        strcmp(line, "0") == 0) {
        return;
    }
    struct cli_check_result *r = cli_check_add(x, "NUMA balancing", CLI_CHECK_WARN);
    cli_check_value(r, "on, nodes %.40s", line);
    cli_check_advice(r, "it unmaps pages to see who uses them: sysctl -w kernel.numa_balancing=0");
}

/* cpu user nice system idle iowait irq softirq steal ... since boot. */
static void check_steal(struct cli_check *x)
{
    char line[LINE_SIZE];
    unsigned long long t[8] = {0};
    if (!cli_check_read(x, "/proc/stat", line, sizeof(line)) ||
        sscanf(line,
               "cpu %llu %llu %llu %llu %llu %llu %llu %llu",
               &t[0],
               &t[1],
               &t[2],
               &t[3],
               &t[4],
               &t[5],
               &t[6],
               &t[7]) != 8) {
        return;
    }
    unsigned long long all = 0;
    for (size_t i = 0; i < 8; i++) {
        all += t[i];
    }
    const double percent = all == 0 ? 0 : 100.0 * (double)t[7] / (double)all;
    const bool is_good = percent <= 2.0;
    struct cli_check_result *r =
        cli_check_add(x, "stolen CPU", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%.1f %% since boot", percent);
    if (!is_good) {
        cli_check_advice(r,
                         "the hypervisor gives the processors to others: latencies mean little "
                         "here; use dedicated cores");
    }
}

/* ---- network ---- */

static void check_at_least(struct cli_check *x, const char *name, const char *path, const char *key)
{
    int64_t number = 0;
    if (!read_number(x, path, &number)) {
        return;
    }
    const bool is_good = number >= BACKLOG_GOOD;
    struct cli_check_result *r = cli_check_add(x, name, is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%lld", (long long)number);
    if (!is_good) {
        cli_check_advice(r,
                         "when all clients reconnect at once some are refused: sysctl -w %s=%d",
                         key,
                         BACKLOG_GOOD);
    }
}

static void check_slow_start(struct cli_check *x)
{
    int64_t is_on = 0;
    if (!read_number(x, "/proc/sys/net/ipv4/tcp_slow_start_after_idle", &is_on)) {
        return;
    }
    struct cli_check_result *r =
        cli_check_add(x, "TCP slow start", is_on == 0 ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, is_on == 0 ? "not after idle" : "again after idle");
    if (is_on != 0) {
        cli_check_advice(r,
                         "a burst after a pause waits for round trips: sysctl -w "
                         "net.ipv4.tcp_slow_start_after_idle=0");
    }
}

/* ---- the disk ---- */

/* A file of the queue of the disk that holds device, which may be a partition of it. */
static bool
read_queue(const struct cli_check *x, uint64_t device, const char *file, char ret_line[LINE_SIZE])
{
    static const char *const places[] = {"", "../"};
    for (size_t i = 0; i < 2; i++) {
        char path[PATH_SIZE];
        (void)snprintf(path,
                       sizeof(path),
                       "/sys/dev/block/%u:%u/%squeue/%s",
                       major(device),
                       minor(device),
                       places[i],
                       file);
        if (cli_check_read(x, path, ret_line, LINE_SIZE)) {
            return true;
        }
    }
    return false;
}

static void check_scheduler(struct cli_check *x, uint64_t device)
{
    char line[LINE_SIZE];
    char word[LINE_SIZE];
    if (!read_queue(x, device, "scheduler", line)) {
        return;
    }
    chosen_word(line, word);
    const bool is_good = strcmp(word, "none") == 0 || strcmp(word, "noop") == 0;
    struct cli_check_result *r =
        cli_check_add(x, "disk scheduler", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "%.40s", word);
    if (!is_good) {
        cli_check_advice(r,
                         "the broker orders its own I/O: echo none > "
                         "/sys/dev/block/%u:%u/queue/scheduler (and a udev rule)",
                         major(device),
                         minor(device));
    }
}

static void check_merges(struct cli_check *x, uint64_t device)
{
    char line[LINE_SIZE];
    if (!read_queue(x, device, "nomerges", line)) {
        return;
    }
    const bool is_good = strcmp(line, "2") == 0;
    struct cli_check_result *r =
        cli_check_add(x, "disk merges", is_good ? CLI_CHECK_PASS : CLI_CHECK_WARN);
    cli_check_value(r, "nomerges %.20s", line);
    if (!is_good) {
        cli_check_advice(r,
                         "looking for requests to merge costs CPU and finds none: echo 2 > "
                         "/sys/dev/block/%u:%u/queue/nomerges",
                         major(device),
                         minor(device));
    }
}

/* Not good or bad, but what a flush costs hangs on it. */
static void check_write_cache(struct cli_check *x, uint64_t device)
{
    char line[LINE_SIZE];
    char fua[LINE_SIZE] = "?";
    if (!read_queue(x, device, "write_cache", line)) {
        return;
    }
    (void)read_queue(x, device, "fua", fua);
    struct cli_check_result *r = cli_check_add(x, "write cache", CLI_CHECK_PASS);
    if (strcmp(line, "write back") == 0) {
        cli_check_value(r, "write back, fua %.10s: acks wait for a flush of the disk", fua);
    } else {
        cli_check_value(r, "%.40s: a flush costs nothing", line);
    }
}

void cli_check_files(struct cli_check *x, uint64_t device)
{
    if (device != 0) {
        check_scheduler(x, device);
        check_merges(x, device);
        check_write_cache(x, device);
    }
    check_swap(x);
    check_huge_pages(x);
    check_clock_source(x);
    check_governor(x);
    check_numa(x);
    check_steal(x);
    check_at_least(x, "listen backlog", "/proc/sys/net/core/somaxconn", "net.core.somaxconn");
    check_at_least(
        x, "SYN backlog", "/proc/sys/net/ipv4/tcp_max_syn_backlog", "net.ipv4.tcp_max_syn_backlog");
    check_slow_start(x);
}
