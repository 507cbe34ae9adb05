/* Produces numbered messages through librdkafka until its standard input closes, and says what
 * became of each:
 *
 *   acked NUMBER PARTITION OFFSET
 *   failed NUMBER REASON
 *
 * usage: rdkafka_producer BROKERS TOPIC (plain|idempotent) DELAY_US
 */
#include <librdkafka/rdkafka.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    IN_FLIGHT_MAX = 2000,
    FLUSH_MS_MAX = 60 * 1000,
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *context)
{
    (void)rk;
    (void)context;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
        (void)printf(
            "failed %.*s %s\n", (int)m->len, (const char *)m->payload, rd_kafka_err2name(m->err));
        return;
    }
    (void)printf("acked %.*s %d %lld\n",
                 (int)m->len,
                 (const char *)m->payload,
                 m->partition,
                 (long long)m->offset);
}

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK) {
        (void)fprintf(stderr, "rdkafka_producer: %s\n", why);
        exit(2);
    }
}

static rd_kafka_t *make_producer(const char *brokers, bool is_idempotent)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    set(conf, "enable.idempotence", is_idempotent ? "true" : "false");
    set(conf, "acks", "all");
    set(conf, "linger.ms", "1");
    set(conf, "message.timeout.ms", "60000");
    set(conf, "reconnect.backoff.ms", "20");
    set(conf, "reconnect.backoff.max.ms", "200");
    set(conf, "retry.backoff.ms", "20");
    set(conf, "log_level", "2");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    char why[512];
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof(why));
    if (rk == NULL) {
        (void)fprintf(stderr, "rdkafka_producer: %s\n", why);
        exit(2);
    }
    return rk;
}

/* The parent closes our input to end us. */
static bool is_asked_to_end(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) > 0;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        (void)fprintf(stderr,
                      "usage: rdkafka_producer BROKERS TOPIC (plain|idempotent) DELAY_US\n");
        return 2;
    }
    const char *topic = argv[2];
    const unsigned delay_us = (unsigned)strtoul(argv[4], NULL, 10);
    rd_kafka_t *rk = make_producer(argv[1], strcmp(argv[3], "idempotent") == 0);

    for (long number = 0; !is_asked_to_end(); number++) {
        while (rd_kafka_outq_len(rk) >= IN_FLIGHT_MAX && !is_asked_to_end()) {
            (void)rd_kafka_poll(rk, 10);
        }
        char payload[32];
        const int size = snprintf(payload, sizeof(payload), "%ld", number);
        const rd_kafka_resp_err_t e = rd_kafka_producev(rk,
                                                        RD_KAFKA_V_TOPIC(topic),
                                                        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                                        RD_KAFKA_V_VALUE(payload, (size_t)size),
                                                        RD_KAFKA_V_END);
        if (e != RD_KAFKA_RESP_ERR_NO_ERROR) {
            (void)printf("failed %ld %s\n", number, rd_kafka_err2name(e));
        }
        (void)rd_kafka_poll(rk, 0);
        (void)usleep(delay_us);
    }
    (void)rd_kafka_flush(rk, FLUSH_MS_MAX);
    char why[512] = "";
    if (rd_kafka_fatal_error(rk, why, sizeof(why)) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        (void)printf("fatal %s\n", why);
    }
    rd_kafka_destroy(rk);
    return 0;
}
