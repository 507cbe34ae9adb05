/* A member of a consumer group through librdkafka: the verb `member` (see ../README.md). A program
 * of its own, so that it can be built against any librdkafka. */
#include <poll.h>
#include <rdkafka.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    PARTITIONS_MAX = 1024,
    POLL_MS = 20,
    COMMIT_MS = 200,
};

static const int64_t NS_PER_MS = 1000 * 1000;

struct member {
    rd_kafka_t *rk;
    const char *topic;
    /* Behind the last record received, of each partition; 0: none yet. */
    int64_t positions[PARTITIONS_MAX];
    int64_t committed[PARTITIONS_MAX];
};

static int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 * NS_PER_MS + now.tv_nsec;
}

static void say(const char *event)
{
    (void)printf("{\"at\":%lld,\"event\":\"%s\"", (long long)now_ns(), event);
}

static void say_error(const char *event, rd_kafka_resp_err_t e)
{
    say(event);
    (void)printf(",\"error\":\"%s\"}\n", rd_kafka_err2name(e));
}

static void say_partitions(const char *event, const rd_kafka_topic_partition_list_t *list)
{
    say(event);
    (void)printf(",\"partitions\":[");
    for (int i = 0; i < list->cnt; i++) {
        (void)printf("%s%d", i > 0 ? "," : "", list->elems[i].partition);
    }
    (void)printf("]}\n");
}

/* ---- commits ---- */

static void say_committed(struct member *m, const rd_kafka_topic_partition_list_t *list)
{
    say("committed");
    (void)printf(",\"offsets\":{");
    const char *comma = "";
    for (int i = 0; i < list->cnt; i++) {
        const rd_kafka_topic_partition_t *p = &list->elems[i];
        if (p->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
            m->committed[p->partition] = p->offset;
            (void)printf("%s\"%d\":%lld", comma, p->partition, (long long)p->offset);
            comma = ",";
        }
    }
    (void)printf("}}\n");
}

/* All that was received of these partitions, waiting for the answer. */
static void commit(struct member *m, const rd_kafka_topic_partition_list_t *owned)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(owned->cnt);
    for (int i = 0; i < owned->cnt; i++) {
        const int32_t p = owned->elems[i].partition;
        if (m->positions[p] > m->committed[p]) {
            rd_kafka_topic_partition_list_add(list, m->topic, p)->offset = m->positions[p];
        }
    }
    if (list->cnt > 0) {
        const rd_kafka_resp_err_t e = rd_kafka_commit(m->rk, list, 0);
        if (e == RD_KAFKA_RESP_ERR_NO_ERROR) {
            say_committed(m, list);
        } else {
            say_error("refused", e);
        }
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static void commit_all(struct member *m)
{
    rd_kafka_topic_partition_list_t *owned = NULL;
    if (rd_kafka_assignment(m->rk, &owned) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        commit(m, owned);
        rd_kafka_topic_partition_list_destroy(owned);
    }
}

/* ---- the group ---- */

static void check(rd_kafka_error_t *error)
{
    if (error != NULL) {
        say_error("error", rd_kafka_error_code(error));
        rd_kafka_error_destroy(error);
    }
}

static void forget(struct member *m, const rd_kafka_topic_partition_list_t *list)
{
    for (int i = 0; i < list->cnt; i++) {
        m->positions[list->elems[i].partition] = m->committed[list->elems[i].partition] = 0;
    }
}

static void on_rebalance(rd_kafka_t *rk,
                         rd_kafka_resp_err_t e,
                         rd_kafka_topic_partition_list_t *list,
                         void *context)
{
    struct member *m = context;
    const bool is_cooperative = strcmp(rd_kafka_rebalance_protocol(rk), "COOPERATIVE") == 0;
    if (e == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS) {
        say_partitions("assigned", list);
        forget(m, list);
        if (is_cooperative) {
            check(rd_kafka_incremental_assign(rk, list));
        } else {
            (void)rd_kafka_assign(rk, list);
        }
        return;
    }
    if (e != RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS) {
        say_error("error", e);
    }
    const bool is_lost = rd_kafka_assignment_lost(rk) != 0;
    if (!is_lost) {
        commit(m, list);
    }
    say_partitions(is_lost ? "lost" : "revoked", list);
    if (is_cooperative) {
        check(rd_kafka_incremental_unassign(rk, list));
    } else {
        (void)rd_kafka_assign(rk, NULL);
    }
}

static void on_error(rd_kafka_t *rk, int e, const char *why, void *context)
{
    (void)rk;
    (void)why;
    (void)context;
    say_error("error", e);
}

static void receive(struct member *m, const rd_kafka_message_t *message)
{
    if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        say_error("error", message->err);
        return;
    }
    say("record");
    (void)printf(
        ",\"partition\":%d,\"offset\":%lld}\n", message->partition, (long long)message->offset);
    m->positions[message->partition] = message->offset + 1;
}

/* ---- the program ---- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK) {
        (void)fprintf(stderr, "member: %s\n", why);
        exit(1);
    }
}

/* BROKERS member GROUP TOPIC PROTOCOL INSTANCE SESSION_MS HEARTBEAT_MS; of the protocol `consumer`,
 * the broker has the times. */
static rd_kafka_conf_t *configured(char **argv, struct member *m)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", argv[1]);
    set(conf, "group.id", argv[3]);
    if (strcmp(argv[5], "consumer") == 0) {
        set(conf, "group.protocol", "consumer");
    } else {
        set(conf, "partition.assignment.strategy", argv[5]);
        set(conf, "session.timeout.ms", argv[7]);
        set(conf, "heartbeat.interval.ms", argv[8]);
    }
    if (strcmp(argv[6], "-") != 0) {
        set(conf, "group.instance.id", argv[6]);
    }
    set(conf, "auto.offset.reset", "earliest");
    set(conf, "enable.auto.commit", "false");
    set(conf, "fetch.wait.max.ms", "100");
    set(conf, "reconnect.backoff.ms", "20");
    set(conf, "reconnect.backoff.max.ms", "200");
    /* A broker that ends while it is asked for the topic, before the first join, is not asked again
     * before that (join state wait-metadata; default 5 minutes). */
    set(conf, "topic.metadata.refresh.interval.ms", "1000");
    const char *debug = getenv("LIBRDKAFKA_DEBUG");
    if (debug == NULL) {
        set(conf, "log_level", "2");
    } else {
        set(conf, "debug", debug);
    }
    rd_kafka_conf_set_opaque(conf, m);
    rd_kafka_conf_set_rebalance_cb(conf, on_rebalance);
    rd_kafka_conf_set_error_cb(conf, on_error);
    return conf;
}

/* The parent lets us begin with a line. */
static void await_line(void)
{
    char c = 0;
    while (read(STDIN_FILENO, &c, 1) == 1 && c != '\n') {
    }
}

/* The parent closes our input to end us. */
static bool is_asked_to_end(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

static void consume(struct member *m)
{
    int64_t due = now_ns();
    while (!is_asked_to_end()) {
        rd_kafka_message_t *message = rd_kafka_consumer_poll(m->rk, POLL_MS);
        if (message != NULL) {
            receive(m, message);
            rd_kafka_message_destroy(message);
        }
        if (now_ns() >= due) {
            commit_all(m);
            due = now_ns() + COMMIT_MS * NS_PER_MS;
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 9) {
        (void)fprintf(
            stderr,
            "usage: member BROKERS member GROUP TOPIC PROTOCOL INSTANCE SESSION_MS HEARTBEAT_MS\n");
        return 1;
    }
    (void)setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
    static struct member m;
    m.topic = argv[4];
    char why[512];
    m.rk = rd_kafka_new(RD_KAFKA_CONSUMER, configured(argv, &m), why, sizeof(why));
    if (m.rk == NULL) {
        (void)fprintf(stderr, "member: %s\n", why);
        return 1;
    }
    (void)rd_kafka_poll_set_consumer(m.rk);
    say("ready");
    (void)printf("}\n");
    await_line();
    rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(1);
    (void)rd_kafka_topic_partition_list_add(topics, m.topic, RD_KAFKA_PARTITION_UA);
    const rd_kafka_resp_err_t e = rd_kafka_subscribe(m.rk, topics);
    if (e != RD_KAFKA_RESP_ERR_NO_ERROR) {
        (void)fprintf(stderr, "member: subscribe: %s\n", rd_kafka_err2str(e));
        return 1;
    }
    rd_kafka_topic_partition_list_destroy(topics);
    consume(&m);
    (void)rd_kafka_consumer_close(m.rk);
    say("closed");
    (void)printf("}\n");
    rd_kafka_destroy(m.rk);
    return 0;
}
