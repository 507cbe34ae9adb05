/* A closed-loop consumer that only counts: one fetch in flight per connection, each for one
 * partition, from its start or from its end on.
 *
 *   fetch --broker HOST:PORT --topic T [--partitions N] [--conns N] [--max BYTES]
 *         [--from start|end] [--seconds S] [--once 0|1] [--rate BYTES]
 *
 * Connection i reads partition i % N. With --once it ends when all have read to the end, else it
 * begins again at the start. --rate: each connection takes so many bytes a second at most. Prints
 * one line of JSON: bytes of batches, time, latency of fetches that brought some, CPU seconds of
 * its own.
 */
#include "kafka/proto/fetch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/arena.h"
#include "core/assert.h"
#include "core/rbuf.h"
#include "core/wbuf.h"
#include "kafka/proto/header.h"
#include "storage/batch.h"

enum {
    FETCH_VERSION = 11, /* The last whose headers have no tags: the body begins at a fixed place. */
    CONNS_MAX = 1024,
    MAX_WAIT_MS = 100,
    HEAD_SIZE = 4 + 4, /* Length, correlation id. */
};

struct options {
    struct sockaddr_in broker;
    const char *topic;
    int partitions_count;
    int conns_count;
    int max_size;
    bool is_from_end;
    bool is_once;
    double seconds;
    double rate;
};

struct conn {
    int fd;
    int32_t partition;
    int64_t offset;
    uint64_t bytes;
    uint64_t sent_us;
    uint64_t due_us; /* Of the next fetch; 0 = one is in flight. */
    bool is_done;
    uint8_t *answer;
    size_t answer_capacity;
    size_t answer_size;
};

struct run {
    struct options options;
    struct conn conns[CONNS_MAX];
    int left_count;
    uint32_t *latencies_us;
    size_t latencies_count;
    size_t latencies_capacity;
    uint64_t started_us;
    uint64_t errors_count;
};

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

_Noreturn static void die(const char *what)
{
    fprintf(stderr, "fetch: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void send_fetch(struct run *r, struct conn *c)
{
    struct wbuf w;
    wbuf_init(&w, 1 << 20);
    size_t length_pos = wbuf_reserve(&w, 4);
    const struct request_header header = {
        .api_key = 1, .api_version = FETCH_VERSION, .client_id = slice_of_string("fetch")};
    enum err e = request_header_encode(&w, &header);
    assert(e == ERR_OK);
    struct fetch_request_partition p;
    fetch_request_partition_init(&p);
    p.partition = c->partition;
    p.fetch_offset = c->offset;
    p.partition_max_bytes = r->options.max_size;
    struct fetch_request_topic t;
    fetch_request_topic_init(&t);
    t.topic = slice_of_string(r->options.topic);
    t.partitions = &p;
    t.partitions_count = 1;
    struct fetch_request request;
    fetch_request_init(&request);
    request.max_wait_ms = MAX_WAIT_MS;
    request.min_bytes = 1;
    request.max_bytes = r->options.max_size;
    request.topics = &t;
    request.topics_count = 1;
    request.rack_id = slice_of("", 0);
    e = fetch_request_encode(&w, FETCH_VERSION, &request);
    assert(e == ERR_OK);
    wbuf_patch_i32(&w, length_pos, (int32_t)(w.size - 4));
    if (send(c->fd, w.data, w.size, MSG_NOSIGNAL) != (ssize_t)w.size) {
        die("send");
    }
    wbuf_done(&w);
    c->sent_us = now_us();
    c->due_us = 0;
}

static void record_latency(struct run *r, uint64_t us)
{
    if (r->latencies_count == r->latencies_capacity) {
        r->latencies_capacity = r->latencies_capacity == 0 ? 1 << 16 : r->latencies_capacity * 2;
        r->latencies_us = realloc(r->latencies_us, r->latencies_capacity * sizeof(uint32_t));
        assert(r->latencies_us != NULL);
    }
    r->latencies_us[r->latencies_count++] = (uint32_t)us;
}

/* Where the batches end. */
static int64_t next_offset(struct slice records, int64_t offset)
{
    size_t pos = 0;
    while (pos < records.size) {
        struct batch_header h;
        const struct slice rest = slice_of(records.data + pos, records.size - pos);
        if (batch_header_decode(rest, &h) != ERR_OK) {
            break;
        }
        offset = h.base_offset + h.last_offset_delta + 1;
        pos += batch_size(&h);
    }
    return offset;
}

static void take_answer(struct run *r, struct conn *c, size_t size)
{
    struct arena a;
    arena_init(&a, 1 << 20);
    struct rbuf body = rbuf_over(c->answer + HEAD_SIZE, size - HEAD_SIZE);
    struct fetch_response response;
    enum err e = fetch_response_decode(&body, FETCH_VERSION, &a, &response);
    if (e != ERR_OK || response.responses_count != 1) {
        die("answer");
    }
    const struct fetch_response_partition *p = &response.responses[0].partitions[0];
    r->errors_count += p->error_code != 0;
    c->bytes += p->records.size;
    const uint64_t at_us = now_us();
    if (p->records.size > 0) {
        record_latency(r, at_us - c->sent_us);
        c->offset = next_offset(p->records, c->offset);
        if (c->offset >= p->high_watermark && !r->options.is_from_end && !r->options.is_once) {
            c->offset = 0; /* Not by an empty answer, which waits. */
        }
    } else if (!r->options.is_from_end && r->options.is_once) {
        c->is_done = true;
        r->left_count--;
    } else if (!r->options.is_from_end) {
        c->offset = 0;
    }
    c->due_us = at_us;
    if (r->options.rate > 0) {
        const uint64_t paced_us =
            r->started_us + (uint64_t)((double)c->bytes / r->options.rate * 1e6);
        c->due_us = paced_us > at_us ? paced_us : at_us;
    }
    arena_done(&a);
}

static void conn_receive(struct run *r, struct conn *c)
{
    for (;;) {
        if (c->answer_size == c->answer_capacity) {
            c->answer_capacity = c->answer_capacity == 0 ? 2 << 20 : c->answer_capacity * 2;
            c->answer = realloc(c->answer, c->answer_capacity);
            assert(c->answer != NULL);
        }
        ssize_t n = recv(
            c->fd, c->answer + c->answer_size, c->answer_capacity - c->answer_size, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            die("the broker closed the connection");
        }
        c->answer_size += (size_t)n;
        uint32_t size_be;
        if (c->answer_size < 4) {
            continue;
        }
        memcpy(&size_be, c->answer, 4);
        if (c->answer_size == ntohl(size_be) + 4) {
            take_answer(r, c, c->answer_size);
            c->answer_size = 0;
            return;
        }
    }
}

static void conn_open(struct run *r, struct conn *c)
{
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0 ||
        connect(c->fd, (struct sockaddr *)&r->options.broker, sizeof(r->options.broker)) != 0) {
        die("connect");
    }
    int on = 1;
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

/* The end is learnt from the answer of a fetch of one byte. */
static void seek_end(struct run *r, struct conn *c)
{
    const int max_size = r->options.max_size;
    r->options.max_size = 1;
    send_fetch(r, c);
    r->options.max_size = max_size;
    do {
        conn_receive(r, c);
    } while (c->due_us == 0);
    struct arena a;
    arena_init(&a, 1 << 20);
    uint32_t size_be;
    memcpy(&size_be, c->answer, 4);
    struct rbuf body = rbuf_over(c->answer + HEAD_SIZE, ntohl(size_be) + 4 - HEAD_SIZE);
    struct fetch_response response;
    enum err e = fetch_response_decode(&body, FETCH_VERSION, &a, &response);
    assert(e == ERR_OK);
    c->offset = response.responses[0].partitions[0].high_watermark;
    c->bytes = 0;
    arena_done(&a);
}

/* Sends what is due; how long nothing more will be. */
static int send_due(struct run *r)
{
    const uint64_t at_us = now_us();
    uint64_t next_us = at_us + 100 * 1000;
    for (int i = 0; i < r->options.conns_count; i++) {
        struct conn *c = &r->conns[i];
        if (c->due_us == 0 || c->is_done) {
            continue;
        }
        if (c->due_us <= at_us) {
            send_fetch(r, c);
        } else if (c->due_us < next_us) {
            next_us = c->due_us;
        }
    }
    return (int)((next_us - at_us + 999) / 1000);
}

static void run_loop(struct run *r)
{
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < r->options.conns_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &r->conns[i]};
        (void)epoll_ctl(poll_fd, EPOLL_CTL_ADD, r->conns[i].fd, &event);
    }
    const uint64_t end_us = r->started_us + (uint64_t)(r->options.seconds * 1e6);
    while (now_us() < end_us && r->left_count > 0) {
        const int timeout_ms = send_due(r);
        struct epoll_event events[64];
        int count = epoll_wait(poll_fd, events, 64, timeout_ms);
        for (int i = 0; i < count; i++) {
            conn_receive(r, events[i].data.ptr);
        }
    }
    (void)close(poll_fd);
}

static int compare_u32(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static uint32_t percentile(const struct run *r, double p)
{
    return r->latencies_count == 0
               ? 0
               : r->latencies_us[(size_t)((double)(r->latencies_count - 1) * p)];
}

static void report(struct run *r)
{
    const double seconds = (double)(now_us() - r->started_us) / 1e6;
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    if (r->latencies_count > 0) {
        qsort(r->latencies_us, r->latencies_count, sizeof(uint32_t), compare_u32);
    }
    uint64_t bytes = 0;
    uint64_t least = UINT64_MAX;
    uint64_t most = 0;
    for (int i = 0; i < r->options.conns_count; i++) {
        const uint64_t n = r->conns[i].bytes;
        bytes += n;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    printf("{\"answers\": %lu, \"bytes\": %lu, \"bytes_least\": %lu, \"bytes_most\": %lu, "
           "\"seconds\": %.3f, \"errors\": %lu, \"p50_us\": %u, \"p99_us\": %u, \"max_us\": %u, "
           "\"generator_cpu_s\": %.3f}\n",
           (unsigned long)r->latencies_count,
           (unsigned long)bytes,
           (unsigned long)least,
           (unsigned long)most,
           seconds,
           (unsigned long)r->errors_count,
           percentile(r, 0.5),
           percentile(r, 0.99),
           percentile(r, 1.0),
           cpu);
}

static void parse_broker(struct options *o, char *text)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL) {
        fprintf(stderr, "fetch: --broker takes HOST:PORT with a numeric IPv4 address\n");
        exit(2);
    }
    *colon = '\0';
    o->broker.sin_family = AF_INET;
    o->broker.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, text, &o->broker.sin_addr) != 1) {
        fprintf(stderr, "fetch: %s is not a numeric IPv4 address\n", text);
        exit(2);
    }
}

static void parse(int argc, char **argv, struct options *o)
{
    static const struct option known[] = {
        {"broker", 1, NULL, 'b'},
        {"topic", 1, NULL, 't'},
        {"partitions", 1, NULL, 'p'},
        {"conns", 1, NULL, 'c'},
        {"max", 1, NULL, 'm'},
        {"from", 1, NULL, 'f'},
        {"seconds", 1, NULL, 's'},
        {"once", 1, NULL, 'o'},
        {"rate", 1, NULL, 'r'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'b':
            parse_broker(o, optarg);
            break;
        case 't':
            o->topic = optarg;
            break;
        case 'p':
            o->partitions_count = (int)strtol(optarg, NULL, 10);
            break;
        case 'c':
            o->conns_count = (int)strtol(optarg, NULL, 10);
            break;
        case 'm':
            o->max_size = (int)strtol(optarg, NULL, 10);
            break;
        case 'f':
            o->is_from_end = strcmp(optarg, "end") == 0;
            break;
        case 's':
            o->seconds = strtod(optarg, NULL);
            break;
        case 'o':
            o->is_once = optarg[0] == '1';
            break;
        case 'r':
            o->rate = strtod(optarg, NULL);
            break;
        default:
            exit(2);
        }
    }
    if (o->conns_count < 1 || o->conns_count > CONNS_MAX || o->partitions_count < 1) {
        fprintf(stderr, "fetch: --conns 1..%d\n", CONNS_MAX);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct run r = {.options = {.topic = "load",
                                       .partitions_count = 1,
                                       .conns_count = 1,
                                       .max_size = 1 << 20,
                                       .seconds = 5}};
    parse(argc, argv, &r.options);
    r.left_count = r.options.conns_count;
    for (int i = 0; i < r.options.conns_count; i++) {
        r.conns[i].partition = i % r.options.partitions_count;
        conn_open(&r, &r.conns[i]);
        if (r.options.is_from_end) {
            seek_end(&r, &r.conns[i]);
        }
        r.conns[i].due_us = 1;
    }
    r.latencies_count = 0;
    r.errors_count = 0;
    r.started_us = now_us();
    run_loop(&r);
    report(&r);
    return r.errors_count == 0 ? 0 : 1;
}
