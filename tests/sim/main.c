/* The simulator's command line: runs seeds, each in a process of its own, and prints a line each.
 *
 *   sim --seed N | --runs N [--first SEED] [--mode any|broker|storage|groups] [--jobs N]
 * [--verbose]
 *       [--check-determinism] [--marks FILE [--further N]] [--keep-going] [--quiet]
 *
 * Exits 1 at the first bad seed, with the command that repeats it; 2 for wrong usage.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/assert.h"

#include "tests/sim/sim.h"

enum {
    JOBS_MAX = 64,
    OUTPUT_SIZE_MAX = 64 << 10,
    SEED_SECONDS_MAX = 30, /* Of a core: a run that takes longer hangs in a loop of the product. */
    KNOWN_MARKS_MAX = 512,
    FURTHER_STEP = 1000,
};

struct arguments {
    enum sim_mode mode;
    uint64_t first;
    uint64_t runs;
    uint32_t jobs;
    bool is_verbose;
    bool is_quiet;
    bool is_checking_determinism;
    bool keeps_going;
    const char *marks_file;
    uint64_t further; /* Seeds beyond runs, as long as a mark of the file is missing. */
};

struct child {
    pid_t pid; /* 0 = none. */
    int output;
    uint64_t seed;
};

/* What all runs of a campaign came to. */
struct campaign {
    struct arguments arguments;
    const char *program;
    uint64_t done;
    uint64_t failed;
    uint64_t *acked; /* Of each good run. */
    uint64_t crashes;
    char *marks[KNOWN_MARKS_MAX]; /* Hit in any run. */
    size_t marks_count;
};

static int usage(void)
{
    (void)fprintf(stderr,
                  "usage: sim --seed N | --runs N [--first SEED] [--mode "
                  "any|broker|storage|groups] [--jobs N]"
                  " [--verbose] [--quiet] [--check-determinism] [--keep-going]"
                  " [--marks FILE [--further N]]\n");
    return 2;
}

static bool parse_number(const char *text, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text == NULL ? "" : text, &end, 0);
    if (text == NULL || *text == '\0' || *end != '\0' || errno != 0) {
        return false;
    }
    *ret = value;
    return true;
}

static bool parse_mode(const char *text, enum sim_mode *ret_mode)
{
    for (enum sim_mode mode = SIM_ANY; mode <= SIM_GROUPS; mode++) {
        if (strcmp(text, sim_mode_name(mode)) == 0) {
            *ret_mode = mode;
            return true;
        }
    }
    return false;
}

static bool parse_option(struct arguments *a, const char *name, const char *value)
{
    uint64_t number;
    if (strcmp(name, "--mode") == 0) {
        return value != NULL && parse_mode(value, &a->mode);
    }
    if (strcmp(name, "--marks") == 0) {
        a->marks_file = value;
        return value != NULL;
    }
    if (!parse_number(value, &number)) {
        return false;
    }
    if (strcmp(name, "--seed") == 0) {
        a->first = number;
        a->runs = 1;
        return true;
    }
    if (strcmp(name, "--runs") == 0) {
        a->runs = number;
        return number > 0;
    }
    if (strcmp(name, "--first") == 0) {
        a->first = number;
        return true;
    }
    if (strcmp(name, "--further") == 0) {
        a->further = number;
        return true;
    }
    if (strcmp(name, "--jobs") == 0) {
        a->jobs = (uint32_t)number;
        return number >= 1 && number <= JOBS_MAX;
    }
    return false;
}

static bool parse_arguments(int argc, char **argv, struct arguments *a)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--verbose") == 0) {
            a->is_verbose = true;
        } else if (strcmp(argv[i], "--quiet") == 0) {
            a->is_quiet = true;
        } else if (strcmp(argv[i], "--check-determinism") == 0) {
            a->is_checking_determinism = true;
        } else if (strcmp(argv[i], "--keep-going") == 0) {
            a->keeps_going = true;
        } else if (parse_option(a, argv[i], argv[i + 1])) {
            i++;
        } else {
            return false;
        }
    }
    return a->runs > 0;
}

/* Time that the process computes, so that a busy machine does not count. 0 = no limit. */
static void limit_time(int seconds)
{
    const struct itimerval limit = {.it_value.tv_sec = seconds};
    if (setitimer(ITIMER_PROF, &limit, NULL) != 0) {
        perror("setitimer");
        exit(2);
    }
}

/* In the child: runs the seed and writes marks and the result line to stdout. */
static void run_seed(const struct arguments *a, uint64_t seed)
{
    limit_time(a->is_verbose ? 0 : SEED_SECONDS_MAX);
    /* What is freed stays with the process: giving pages back and having them anew is a third of a
     * run's time. */
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 30);
    (void)mallopt(M_TRIM_THRESHOLD, 1 << 30);
    struct sim *sim = malloc(sizeof(*sim));
    assert(sim != NULL);
    sim_init(sim, seed, a->mode);
    sim->is_verbose = a->is_verbose;
    if (a->is_verbose) {
        sim_print_swarm(sim, stderr);
    }
    if (sim->mode == SIM_STORAGE) {
        storage_mode_run(sim);
    } else if (sim->mode == SIM_GROUPS) {
        groups_mode_run(sim);
    } else {
        broker_mode_run(sim);
    }
    for (size_t i = 0; i < sim->marks_count; i++) {
        printf("mark %s\n", sim->marks[i]);
    }
    sim_done(sim);
    printf("seed=%" PRIu64 " hash=%016" PRIx64 " acked=%" PRIu64 " elections=%u crashes=%u\n",
           seed,
           sim->trace,
           sim->acked,
           sim->elections,
           sim->crashes);
    (void)fflush(stdout);
}

static struct child start_child(const struct arguments *a, uint64_t seed)
{
    int ends[2];
    if (pipe(ends) != 0) {
        perror("pipe");
        exit(2);
    }
    (void)fflush(NULL);
    pid_t pid = fork();
    if (pid < 0) {
        perror("fork");
        exit(2);
    }
    if (pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)close(ends[0]);
        (void)close(ends[1]);
        run_seed(a, seed);
        _exit(0); /* What crashed incarnations left behind is nobody's leak. */
    }
    (void)close(ends[1]);
    return (struct child){.pid = pid, .output = ends[0], .seed = seed};
}

/* Reads all the child says, waits for its end. True if it ended well. */
static bool finish_child(struct child *c, char *output)
{
    size_t size = 0;
    for (;;) {
        ssize_t n = read(c->output, output + size, OUTPUT_SIZE_MAX - 1 - size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        size += (size_t)n;
    }
    output[size] = '\0';
    (void)close(c->output);
    int status = 0;
    while (waitpid(c->pid, &status, 0) < 0 && errno == EINTR) {
    }
    c->pid = 0;
    if (WIFSIGNALED(status)) {
        (void)fprintf(stderr,
                      "FAILED seed=%" PRIu64 ": %s\n",
                      c->seed,
                      WTERMSIG(status) == SIGPROF ? "hangs" : strsignal(WTERMSIG(status)));
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void take_mark(struct campaign *c, const char *name)
{
    for (size_t i = 0; i < c->marks_count; i++) {
        if (strcmp(c->marks[i], name) == 0) {
            return;
        }
    }
    assert_cmp(c->marks_count, <, KNOWN_MARKS_MAX);
    c->marks[c->marks_count] = strdup(name);
    assert(c->marks[c->marks_count] != NULL);
    c->marks_count++;
}

/* Takes the marks out of a run's output; what is left is the result line. */
static const char *take_output(struct campaign *c, char *output)
{
    char *line = output;
    while (strncmp(line, "mark ", 5) == 0) {
        char *end = strchr(line, '\n');
        assert(end != NULL);
        *end = '\0';
        take_mark(c, line + 5);
        line = end + 1;
    }
    return line;
}

static bool is_same_again(const struct campaign *c, uint64_t seed, const char *line)
{
    static_assert((int)OUTPUT_SIZE_MAX <= 64 << 10, "fits on the stack");
    char output[OUTPUT_SIZE_MAX];
    struct child again = start_child(&c->arguments, seed);
    if (!finish_child(&again, output)) {
        return false;
    }
    const char *other = strstr(output, "seed=");
    if (other == NULL || strcmp(other, line) != 0) {
        (void)fprintf(stderr, "FAILED seed=%" PRIu64 ": not deterministic: %s", seed, other);
        return false;
    }
    return true;
}

static void take_result(struct campaign *c, struct child *child)
{
    char output[OUTPUT_SIZE_MAX];
    uint64_t seed = child->seed;
    bool is_good = finish_child(child, output);
    const char *line = is_good ? take_output(c, output) : "";
    if (is_good && c->arguments.is_checking_determinism) {
        is_good = is_same_again(c, seed, line);
    }
    if (!is_good) {
        c->failed++;
        (void)fprintf(stderr,
                      "repeat: %s --mode %s --seed %" PRIu64 " --verbose\n",
                      c->program,
                      sim_mode_name(c->arguments.mode),
                      seed);
        return;
    }
    uint64_t acked = 0;
    uint64_t crashes = 0;
    (void)sscanf(line,
                 "seed=%*u hash=%*x acked=%" SCNu64 " elections=%*u crashes=%" SCNu64,
                 &acked,
                 &crashes);
    c->acked[c->done++] = acked;
    c->crashes += crashes;
    if (!c->arguments.is_quiet) {
        (void)fputs(line, stdout);
        (void)fflush(stdout);
    }
}

static int compare_u64(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The number of marks in the file that no run has hit, named on out unless it is NULL. */
static size_t missing_marks(const struct campaign *c, FILE *out)
{
    if (c->arguments.marks_file == NULL) {
        return 0;
    }
    FILE *f = fopen(c->arguments.marks_file, "r");
    if (f == NULL) {
        perror(c->arguments.marks_file);
        exit(2);
    }
    size_t missing = 0;
    char name[128];
    while (fscanf(f, "%127s", name) == 1) {
        bool is_hit = false;
        for (size_t i = 0; i < c->marks_count && !is_hit; i++) {
            is_hit = strcmp(c->marks[i], name) == 0;
        }
        missing += !is_hit;
        if (!is_hit && out != NULL) {
            (void)fprintf(out, "mark never reached: %s\n", name);
        }
    }
    (void)fclose(f);
    return missing;
}

static void run_all(struct campaign *c)
{
    const struct arguments *a = &c->arguments;
    struct child children[JOBS_MAX] = {0};
    uint64_t started = 0;
    uint64_t finished = 0;
    bool is_stopping = false;
    while (finished < started || (started < a->runs && !is_stopping)) {
        while (started < a->runs && !is_stopping && started - finished < a->jobs) {
            children[started % a->jobs] = start_child(a, a->first + started);
            started++;
        }
        take_result(c, &children[finished % a->jobs]);
        finished++;
        is_stopping = c->failed > 0 && !a->keeps_going;
    }
}

/* A rare mark moves to other seeds with every change of the product. */
static void run_further(struct campaign *c)
{
    struct arguments *a = &c->arguments;
    while (c->failed == 0 && a->further > 0 && missing_marks(c, NULL) > 0) {
        a->first += a->runs;
        a->runs = a->further < FURTHER_STEP ? a->further : FURTHER_STEP;
        a->further -= a->runs;
        run_all(c);
    }
}

int main(int argc, char **argv)
{
    struct campaign c = {
        .arguments = {.mode = SIM_ANY, .first = 1, .jobs = 2},
        .program = argv[0],
    };
    if (!parse_arguments(argc, argv, &c.arguments)) {
        return usage();
    }
    c.acked = calloc(c.arguments.runs + c.arguments.further, sizeof(*c.acked));
    assert(c.acked != NULL);
    time_t start = time(NULL);
    run_all(&c);
    run_further(&c);
    size_t missing = c.failed == 0 ? missing_marks(&c, stderr) : 0;
    if (c.arguments.runs > 1 && c.done > 0) {
        qsort(c.acked, c.done, sizeof(*c.acked), compare_u64);
        (void)fprintf(stderr,
                      "runs=%" PRIu64 " failed=%" PRIu64 " acked_median=%" PRIu64
                      " crashes=%" PRIu64 " marks=%zu seconds=%lld\n",
                      c.done + c.failed,
                      c.failed,
                      c.acked[c.done / 2],
                      c.crashes,
                      c.marks_count,
                      (long long)(time(NULL) - start));
    }
    return c.failed > 0 || missing > 0 ? 1 : 0;
}
