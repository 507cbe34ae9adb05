/* A produce generator that replays one pre-encoded request, so that the generator's own cost stays
 * out of the broker's figures. One thread, epoll, a window of requests per connection.
 *
 * A closed loop: as fast as the windows allow. With --rate an open one: requests are due at even
 * distances, connections taking turns, and a latency begins when its request was due, however long
 * the window kept it back.
 *
 *   load --broker HOST:PORT --topic T [--partitions N] [--conns N] [--window N] [--record BYTES]
 *        [--records N] [--acks -1|0|1] [--seconds S] [--warmup S] [--rate REQUESTS_PER_SECOND]
 *
 * Prints one line of JSON: records and bytes acknowledged after the warm-up, all_records with those
 * of the warm-up, latency percentiles in microseconds (from send, or when it was due, to answer),
 * the generator's own CPU seconds. At the end what was sent or due is waited for, so that a stall
 * then is among the latencies: with its age, and as an error, if it never comes. What is refused is
 * an error and nothing else. The topic must exist.
 */
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

#include "core/assert.h"
#include "kafka/proto/header.h"
#include "kafka/proto/produce.h"
#include "storage/batch.h"

enum {
    PRODUCE_VERSION = 9,
    ANSWER_SIZE_MAX = 4096,
    WINDOW_MAX = 256,
    CONNS_MAX = 4096,
    CORRELATION_POS = 8, /* Length prefix, api key, version. */
    DRAIN_US_MAX = 10 * 1000 * 1000,
};

struct options {
    struct sockaddr_in broker;
    const char *topic;
    int partitions_count;
    int conns_count;
    int window;
    int record_size;
    int records_count; /* per batch */
    int acks;
    double seconds;
    double warmup_seconds;
    double rate; /* Requests per second over all connections; 0 = a closed loop. */
};

/* One connection: sends frames as long as its window allows, reads answers. */
struct conn {
    int number;
    int fd;
    uint8_t *frame; /* This connection's copy: its partition and correlation id differ. */
    size_t frame_size;
    size_t sent_size; /* Of the frame being sent; 0 = none. */
    int in_flight_count;
    uint64_t sent_us[WINDOW_MAX]; /* Ring, in order of sending. */
    uint32_t sent_head;
    uint32_t sent_tail;
    uint8_t answer[ANSWER_SIZE_MAX];
    size_t answer_size;
};

struct run {
    struct options options;
    struct conn *conns;
    uint32_t *latencies_us;
    size_t latencies_count;
    size_t latencies_capacity;
    uint64_t answers_count;     /* From count_from_us to end_us. */
    uint64_t all_answers_count; /* From the start, to the last. */
    uint64_t started_us;
    uint64_t count_from_us;
    uint64_t end_us; /* Nothing that is due later is sent. */
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
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void build_batch(const struct options *o, struct wbuf *ret_batch)
{
    struct batch_builder b;
    batch_builder_init(&b, 64 << 20);
    uint8_t *value = malloc((size_t)o->record_size);
    assert(value != NULL);
    for (int i = 0; i < o->record_size; i++) {
        value[i] = (uint8_t)(i * 131 + 7);
    }
    for (int i = 0; i < o->records_count; i++) {
        enum err e = batch_builder_add(
            &b,
            &(struct batch_record){.timestamp = (int64_t)time(NULL) * 1000,
                                   .key = (struct slice){0},
                                   .value = slice_of(value, (size_t)o->record_size)});
        assert(e == ERR_OK);
    }
    const struct batch_identity nobody = {-1, -1, -1};
    enum err e = batch_builder_finish(&b, CODEC_NONE, &nobody, ret_batch);
    assert(e == ERR_OK);
    batch_builder_done(&b);
    free(value);
}

static void
build_frame(const struct options *o, struct slice batch, int32_t partition, struct conn *c)
{
    struct wbuf w;
    wbuf_init(&w, 128 << 20);
    size_t length_pos = wbuf_reserve(&w, 4);
    const struct request_header header = {.api_key = 0,
                                          .api_version = PRODUCE_VERSION,
                                          .correlation_id = 0,
                                          .client_id = slice_of_string("load")};
    enum err e = request_header_encode(&w, &header);
    assert(e == ERR_OK);

    struct produce_request_partition p;
    produce_request_partition_init(&p);
    p.index = partition;
    p.records = batch;
    struct produce_request_topic t;
    produce_request_topic_init(&t);
    t.name = slice_of_string(o->topic);
    t.partition_data = &p;
    t.partition_data_count = 1;
    struct produce_request request;
    produce_request_init(&request);
    request.acks = (int16_t)o->acks;
    request.timeout_ms = 30000;
    request.topic_data = &t;
    request.topic_data_count = 1;
    e = produce_request_encode(&w, PRODUCE_VERSION, &request);
    assert(e == ERR_OK);
    wbuf_patch_i32(&w, length_pos, (int32_t)(w.size - 4));
    c->frame = wbuf_take(&w, &c->frame_size);
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

static void add_latency(struct run *r, uint64_t from_us, uint64_t at_us)
{
    if (r->latencies_count == r->latencies_capacity) {
        r->latencies_capacity = r->latencies_capacity == 0 ? 1 << 16 : r->latencies_capacity * 2;
        r->latencies_us = realloc(r->latencies_us, r->latencies_capacity * sizeof(uint32_t));
        assert(r->latencies_us != NULL);
    }
    r->latencies_us[r->latencies_count++] = (uint32_t)(at_us - from_us);
}

static void record_answer(struct run *r, uint64_t from_us, uint64_t at_us)
{
    r->all_answers_count++;
    if (at_us >= r->count_from_us) {
        r->answers_count += at_us < r->end_us;
        add_latency(r, from_us, at_us);
    }
}

/* The answer's error code stands behind correlation id, tag byte, topic count, name, partition
 * count and index; with one topic and one partition its position is fixed by the name's length. */
static bool answer_is_error(const struct run *r, const uint8_t *answer)
{
    size_t pos = 4 + 4 + 1 + 1 + 1 + strlen(r->options.topic) + 1 + 4;
    return answer[pos] != 0 || answer[pos + 1] != 0;
}

static void conn_receive(struct run *r, struct conn *c)
{
    ssize_t n =
        recv(c->fd, c->answer + c->answer_size, sizeof(c->answer) - c->answer_size, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        die("the broker closed the connection");
    }
    c->answer_size += (size_t)n;
    size_t pos = 0;
    while (c->answer_size - pos >= 4) {
        uint32_t size_be;
        memcpy(&size_be, c->answer + pos, 4);
        size_t size = ntohl(size_be) + 4;
        if (c->answer_size - pos < size) {
            break;
        }
        const uint64_t from_us = c->sent_us[c->sent_tail++ % WINDOW_MAX];
        if (answer_is_error(r, c->answer + pos)) {
            r->errors_count++;
        } else {
            record_answer(r, from_us, now_us());
        }
        c->in_flight_count--;
        pos += size;
    }
    memmove(c->answer, c->answer + pos, c->answer_size - pos);
    c->answer_size -= pos;
}

/* When the request number k of all is due. */
static uint64_t due_us(const struct run *r, uint64_t k)
{
    return r->started_us + (uint64_t)((double)k / r->options.rate * 1e6);
}

/* When the connection's next request is due. */
static uint64_t next_due_us(const struct run *r, const struct conn *c)
{
    const uint64_t k = (uint64_t)c->sent_head * (uint64_t)r->options.conns_count;
    return due_us(r, k + (uint64_t)c->number);
}

/* From when on the latency of the connection's next request counts; false if it is not due. */
static bool next_is_due(const struct run *r, const struct conn *c, uint64_t *ret_from_us)
{
    const uint64_t now = now_us();
    *ret_from_us = r->options.rate <= 0 ? now : next_due_us(r, c);
    return *ret_from_us <= now && *ret_from_us < r->end_us;
}

/* Sends until the window or the socket is full, or nothing is due; false if the socket is full. */
static bool conn_send(struct run *r, struct conn *c)
{
    while (c->sent_size > 0 || c->in_flight_count < r->options.window) {
        if (c->sent_size == 0) {
            uint64_t from_us;
            if (!next_is_due(r, c, &from_us)) {
                return true;
            }
            c->sent_us[c->sent_head++ % WINDOW_MAX] = from_us;
            c->in_flight_count += r->options.acks != 0;
            uint32_t id_be = htonl(c->sent_head);
            memcpy(c->frame + CORRELATION_POS, &id_be, 4);
        }
        ssize_t n = send(c->fd,
                         c->frame + c->sent_size,
                         c->frame_size - c->sent_size,
                         MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            if (c->sent_size == 0) {
                c->sent_head--;
                c->in_flight_count -= r->options.acks != 0;
            }
            return false;
        }
        if (n < 0) {
            die("send");
        }
        c->sent_size += (size_t)n;
        if (c->sent_size < c->frame_size) {
            return false;
        }
        c->sent_size = 0;
        if (r->options.acks == 0) {
            record_answer(r, now_us(), now_us());
        }
    }
    return true;
}

/* Starts what became due, and returns how long until the next is, at most 100 ms. */
static uint64_t send_due(struct run *r, uint64_t *k)
{
    const uint64_t rest_us = 100 * 1000;
    if (r->options.rate <= 0) {
        return rest_us;
    }
    const uint64_t now = now_us();
    while (due_us(r, *k) <= now) {
        (void)conn_send(r, &r->conns[*k % (uint64_t)r->options.conns_count]);
        (*k)++;
    }
    const uint64_t next_us = due_us(r, *k);
    return next_us - now < rest_us ? next_us - now : rest_us;
}

static bool has_more(const struct run *r, const struct conn *c)
{
    const bool is_due = r->options.rate > 0 && next_due_us(r, c) < r->end_us;
    return c->in_flight_count > 0 || c->sent_size > 0 || is_due;
}

static bool is_over(const struct run *r)
{
    const uint64_t now = now_us();
    if (now < r->end_us) {
        return false;
    }
    for (int i = 0; i < r->options.conns_count; i++) {
        if (has_more(r, &r->conns[i])) {
            return now >= r->end_us + DRAIN_US_MAX;
        }
    }
    return true;
}

/* What was not answered, or not even sent. */
static void count_left(struct run *r)
{
    const uint64_t now = now_us();
    for (int i = 0; i < r->options.conns_count; i++) {
        struct conn *c = &r->conns[i];
        for (; c->in_flight_count > 0; c->in_flight_count--) {
            add_latency(r, c->sent_us[c->sent_tail++ % WINDOW_MAX], now);
            r->errors_count++;
        }
        for (; r->options.rate > 0 && next_due_us(r, c) < r->end_us; c->sent_head++) {
            add_latency(r, next_due_us(r, c), now);
            r->errors_count++;
        }
    }
}

static void run_loop(struct run *r)
{
    int poll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < r->options.conns_count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                    .data.ptr = &r->conns[i]};
        (void)epoll_ctl(poll_fd, EPOLL_CTL_ADD, r->conns[i].fd, &event);
    }
    uint64_t k = 0;
    while (!is_over(r)) {
        struct epoll_event events[64];
        const uint64_t wait_us = send_due(r, &k);
        const struct timespec wait = {.tv_sec = 0, .tv_nsec = (long)wait_us * 1000};
        int count = epoll_pwait2(poll_fd, events, 64, &wait, NULL);
        for (int i = 0; i < count; i++) {
            struct conn *c = events[i].data.ptr;
            conn_receive(r, c);
            (void)conn_send(r, c);
        }
    }
    count_left(r);
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
    struct rusage usage;
    (void)getrusage(RUSAGE_SELF, &usage);
    double cpu = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                 (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
    if (r->latencies_count > 0) {
        qsort(r->latencies_us, r->latencies_count, sizeof(uint32_t), compare_u32);
    }
    uint64_t records = r->answers_count * (uint64_t)r->options.records_count;
    printf(
        "{\"requests\": %lu, \"records\": %lu, \"all_records\": %lu, \"bytes\": %lu, \"seconds\": "
        "%.3f, \"errors\": %lu, "
        "\"p50_us\": %u, \"p99_us\": %u, \"p999_us\": %u, \"max_us\": %u, \"generator_cpu_s\": "
        "%.3f}\n",
        (unsigned long)r->answers_count,
        (unsigned long)records,
        (unsigned long)(r->all_answers_count * (uint64_t)r->options.records_count),
        (unsigned long)(records * (uint64_t)r->options.record_size),
        r->options.seconds,
        (unsigned long)r->errors_count,
        percentile(r, 0.5),
        percentile(r, 0.99),
        percentile(r, 0.999),
        percentile(r, 1.0),
        cpu);
}

static void parse_broker(struct options *o, char *text)
{
    char *colon = strrchr(text, ':');
    if (colon == NULL) {
        fprintf(stderr, "load: --broker takes HOST:PORT with a numeric IPv4 address\n");
        exit(2);
    }
    *colon = '\0';
    o->broker.sin_family = AF_INET;
    o->broker.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (inet_pton(AF_INET, text, &o->broker.sin_addr) != 1) {
        fprintf(stderr, "load: %s is not a numeric IPv4 address\n", text);
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
        {"window", 1, NULL, 'w'},
        {"record", 1, NULL, 'r'},
        {"records", 1, NULL, 'n'},
        {"acks", 1, NULL, 'a'},
        {"seconds", 1, NULL, 's'},
        {"warmup", 1, NULL, 'u'},
        {"rate", 1, NULL, 'R'},
        {NULL, 0, NULL, 0},
    };
    int option;
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        int number = option == '?' ? 0 : (int)strtol(optarg, NULL, 10);
        switch (option) {
        case 'b':
            parse_broker(o, optarg);
            break;
        case 't':
            o->topic = optarg;
            break;
        case 'p':
            o->partitions_count = number;
            break;
        case 'c':
            o->conns_count = number;
            break;
        case 'w':
            o->window = number;
            break;
        case 'r':
            o->record_size = number;
            break;
        case 'n':
            o->records_count = number;
            break;
        case 'a':
            o->acks = number;
            break;
        case 's':
            o->seconds = strtod(optarg, NULL);
            break;
        case 'u':
            o->warmup_seconds = strtod(optarg, NULL);
            break;
        case 'R':
            o->rate = strtod(optarg, NULL);
            break;
        default:
            exit(2);
        }
    }
    if (o->conns_count < 1 || o->conns_count > CONNS_MAX || o->window < 1 ||
        o->window > WINDOW_MAX) {
        fprintf(stderr, "load: --conns 1..%d, --window 1..%d\n", CONNS_MAX, WINDOW_MAX);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    static struct run r = {.options = {.topic = "load",
                                       .partitions_count = 1,
                                       .conns_count = 1,
                                       .window = 1,
                                       .record_size = 1024,
                                       .records_count = 63,
                                       .acks = -1,
                                       .seconds = 5,
                                       .warmup_seconds = 1}};
    parse(argc, argv, &r.options);
    r.conns = calloc((size_t)r.options.conns_count, sizeof(struct conn));
    assert(r.conns != NULL);
    struct wbuf batch;
    wbuf_init(&batch, 128 << 20);
    build_batch(&r.options, &batch);
    for (int i = 0; i < r.options.conns_count; i++) {
        build_frame(&r.options, wbuf_slice(&batch), i % r.options.partitions_count, &r.conns[i]);
        r.conns[i].number = i;
        conn_open(&r, &r.conns[i]);
    }
    r.started_us = now_us();
    r.count_from_us = r.started_us + (uint64_t)(r.options.warmup_seconds * 1e6);
    r.end_us = r.count_from_us + (uint64_t)(r.options.seconds * 1e6);
    run_loop(&r);
    report(&r);
    return r.errors_count == 0 ? 0 : 1;
}
