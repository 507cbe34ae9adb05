/* Connections: versions agreed on, and strangers told apart. Every way in which a peer can let us
 * down ends in one line and a closed connection. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/client_priv.h"
#include "kafka/proto/api_keys.h"
#include "kafka/proto/api_versions.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/metadata.h"

#include "tests/unit/client/fake_broker.h"

static struct fake_broker broker;
static struct client *client;

static void setup(void)
{
    fake_broker_init(&broker);
    client = fake_broker_client(&broker);
}

static void teardown(void)
{
    client_free(client);
    fake_broker_done(&broker);
}

TestSuite(client_conn, .init = setup, .fini = teardown);

/* Asks for the cluster; what the calls below are about. */
static enum err describe(void)
{
    struct client_cluster *cluster = NULL;
    enum err e = client_describe(client, NULL, 0, &cluster);
    client_cluster_free(cluster);
    return e;
}

static void expect_why(const char *part)
{
    cr_assert(strstr(client_why(client), part) != NULL, "%s", client_why(client));
}

Test(client_conn, highest_common_version_is_used)
{
    broker.version_max[API_METADATA] = 5;
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
}

Test(client_conn, nothing_in_common_is_said)
{
    broker.version_max[API_METADATA] = -1;
    fake_broker_connection(&broker);
    cr_assert(eq(int, describe(), ERR_UNSUPPORTED));
    expect_why("does not serve metadata");
}

/* A broker that knows ApiVersions only up to 2 says so in an answer of version 0. */
static void refuse_versions(int16_t max)
{
    struct api_versions_response response;
    struct api_versions_response_api_key own;
    api_versions_response_init(&response);
    api_versions_response_api_key_init(&own);
    own.api_key = API_API_VERSIONS;
    own.max_version = max;
    response.error_code = KAFKA_UNSUPPORTED_VERSION;
    response.api_keys = &own;
    response.api_keys_count = max >= 0;
    fake_broker_answer_in(&broker, API_API_VERSIONS, 0, &response);
}

static void answer_versions(int16_t version)
{
    struct api_versions_response response;
    struct api_versions_response_api_key keys[2];
    api_versions_response_init(&response);
    for (size_t i = 0; i < 2; i++) {
        api_versions_response_api_key_init(&keys[i]);
    }
    keys[0].api_key = API_METADATA;
    keys[0].max_version = 1;
    keys[1].api_key = API_API_VERSIONS;
    keys[1].max_version = version;
    response.api_keys = keys;
    response.api_keys_count = 2;
    fake_broker_answer_in(&broker, API_API_VERSIONS, version, &response);
}

Test(client_conn, refused_version_of_versions_is_asked_again_lower)
{
    static const int16_t theirs[] = {2, 1, 0, -1};
    for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++) {
        teardown();
        setup();
        fake_broker_bare_connection(&broker);
        refuse_versions(theirs[i]);
        answer_versions(theirs[i] > 0 ? theirs[i] : 0);
        broker.version_max[API_METADATA] = 1;
        fake_broker_metadata(&broker, 1);
        cr_assert(eq(int, describe(), ERR_OK), "%d: %s", theirs[i], client_why(client));
    }
}

Test(client_conn, endless_refusal_ends)
{
    fake_broker_bare_connection(&broker);
    refuse_versions(2);
    refuse_versions(1);
    refuse_versions(0);
    refuse_versions(0);
    cr_assert(ne(int, describe(), ERR_OK));
}

struct stranger {
    const char *bytes;
    size_t size;
    enum err err;
    const char *why;
};

Test(client_conn, strangers_are_told_apart)
{
    static const struct stranger strangers[] = {
        {"HTTP/1.1 400 Bad Request\r\n\r\n", 28, ERR_CORRUPT, "HTTP server"},
        {"\x15\x03\x01\x00\x02\x02\x46", 7, ERR_CORRUPT, "TLS"},
        {"\x7f\xff\xff\xff", 4, ERR_CORRUPT, "frame of"},
        {"\x00\x00\x00\x03", 4, ERR_CORRUPT, "frame of"},
        {"\x00\x00\x00\x04\x00\x00\x00\x09", 8, ERR_CORRUPT, "cannot be read"},
        {"", 0, ERR_CLOSED, "closed the connection at the first request"},
    };
    for (size_t i = 0; i < sizeof(strangers) / sizeof(strangers[0]); i++) {
        const struct stranger *s = &strangers[i];
        teardown();
        setup();
        fake_broker_bare_connection(&broker);
        fake_broker_bytes(&broker, s->bytes, s->size);
        fake_broker_end(&broker);
        cr_assert(eq(int, describe(), s->err), "%zu: %s", i, client_why(client));
        expect_why(s->why);
        cr_assert(not(client_was_connected(client)));
    }
}

Test(client_conn, silence_ends_at_the_timeout)
{
    fake_broker_bare_connection(&broker);
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, describe(), ERR_TIMED_OUT));
    cr_assert(eq(u64, broker.clock.now_us - before_us, 1000000));
    expect_why("did not answer in time");
}

Test(client_conn, refused_connection_is_named)
{
    fake_broker_refuse(&broker);
    cr_assert(eq(int, describe(), ERR_CLOSED));
    expect_why("cannot reach fake");
    cr_assert(not(client_was_connected(client)));
}

/* The answers to the greeting and to Metadata, one of them as the test wants it; then the end. */
static enum err describe_with(size_t changed, struct slice bytes)
{
    struct fake_broker bad;
    fake_broker_init(&bad);
    fake_broker_bare_connection(&bad);
    for (size_t i = 0; i < 2; i++) {
        fake_broker_answer_bytes(&bad, i == changed ? bytes : broker.connections[0].steps[i].bytes);
    }
    fake_broker_end(&bad);
    struct client *c = fake_broker_client(&bad);
    struct client_cluster *cluster = NULL;
    enum err e = client_describe(c, NULL, 0, &cluster);
    cr_assert(e == ERR_OK || strlen(client_why(c)) > 0);
    client_cluster_free(e == ERR_OK ? cluster : NULL);
    client_free(c);
    fake_broker_done(&bad);
    return e;
}

/* Cut at byte N, and nothing after it. */
Test(client_conn, every_cut_answer_is_an_error)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    for (size_t i = 0; i < 2; i++) {
        const struct slice whole = broker.connections[0].steps[i].bytes;
        for (size_t size = 0; size < whole.size; size++) {
            const struct slice cut = slice_of(whole.data, size);
            cr_assert(ne(int, describe_with(i, cut), ERR_OK), "answer %zu size %zu", i, size);
        }
    }
}

/* Changed bytes: an error or an answer, but never a crash or an endless wait. */
Test(client_conn, changed_bytes_do_no_harm)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 2);
    for (size_t i = 0; i < 2; i++) {
        uint8_t changed[8192];
        const struct slice whole = broker.connections[0].steps[i].bytes;
        cr_assert(le(sz, whole.size, sizeof(changed)));
        memcpy(changed, whole.data, whole.size);
        for (size_t at = 0; at < whole.size; at++) {
            changed[at] ^= 0x81;
            (void)describe_with(i, slice_of(changed, whole.size));
            changed[at] ^= 0x81;
        }
    }
}

/* An answer must be to something. */
Test(client_conn, answer_that_nobody_asked_for_closes_the_connection)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_bytes(&broker, "\0\0\0\4\0\0\0\2", 8);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, describe(), ERR_OK));
    fake_broker_run(&broker, client);
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
    cr_assert(eq(sz, broker.dialled_count, 2));
}

/* An idle connection that the broker closed is no reason to fail. */
Test(client_conn, connection_closed_while_idle_is_opened_again)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_end(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, describe(), ERR_OK));
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
    cr_assert(eq(sz, broker.dialled_count, 2));
}

/* A connection that breaks under the first of several calls: all of them seek another. */
Test(client_conn, whoever_seeks_when_a_connection_breaks_seeks_on)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_connection(&broker);
    cr_assert(eq(int, describe(), ERR_OK));
    struct client_call calls[3];
    struct metadata_request requests[3];
    struct metadata_response responses[3];
    cr_assert(close(broker.connections[0].fd) == 0);
    broker.connections[0].fd = -1;
    client_lock(client);
    for (size_t i = 0; i < 3; i++) {
        fake_broker_metadata(&broker, 1);
        metadata_request_init(&requests[i]);
        requests[i].topics = NULL;
        metadata_response_init(&responses[i]);
        calls[i] = (struct client_call){
            .api_key = API_METADATA,
            .node_id = CLIENT_NODE_ANY,
            .is_repeatable = true,
            .timeout_ms = 1000,
            .request = &requests[i],
            .arena = &broker.arena,
            .response = &responses[i],
        };
        client_post(client, &calls[i]);
    }
    client_unlock(client);
    fake_broker_run(&broker, client);
    for (size_t i = 0; i < 3; i++) {
        cr_assert(calls[i].is_done);
        cr_assert(calls[i].err == ERR_OK, "%s", calls[i].why);
        client_call_done(&calls[i]);
    }
}

static const char *resolve_unlocked(struct client_env *env,
                                    const struct client_address *address,
                                    struct client_place places[CLIENT_PLACES_MAX],
                                    size_t *ret_count)
{
    (void)env;
    (void)address;
    cr_assert(pthread_mutex_trylock(&client->lock) == 0, "names are looked up under the lock");
    client_unlock(client);
    places[0] = places[1] = (struct client_place){0};
    *ret_count = 2;
    return NULL;
}

/* The C library may look long for a name: others must not wait for it. */
Test(client_conn, names_are_looked_up_without_the_lock)
{
    broker.env.resolve = resolve_unlocked;
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
}

static int blackhole = -1; /* The far end of what was dialled first. */
static int (*dial_broker)(struct client_env *env, const struct client_place *place, int *ret_fd);

/* The first address swallows everything: its socket never gets writable. */
static int dial_blackhole(struct client_env *env, const struct client_place *place, int *ret_fd)
{
    if (blackhole != -1) {
        return dial_broker(env, place, ret_fd);
    }
    int pair[2];
    static const uint8_t zeros[4096];
    cr_assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    while (write(pair[0], zeros, sizeof(zeros)) > 0) {
    }
    blackhole = pair[1];
    *ret_fd = pair[0];
    return EINPROGRESS;
}

/* Of several addresses of a host each has its share of the time. */
Test(client_conn, an_address_that_swallows_everything_is_left)
{
    blackhole = -1;
    dial_broker = broker.env.dial;
    broker.env.dial = dial_blackhole;
    broker.env.resolve = resolve_unlocked;
    const uint64_t before_us = broker.clock.now_us;
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
    cr_assert(eq(u64, broker.clock.now_us - before_us, 500000)); /* Half of the timeout. */
    (void)close(blackhole);
}

/* A connection that has carried 2^31 requests goes on at 0. */
Test(client_conn, correlation_ids_wrap)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    broker.connections[0].correlation_next = INT32_MAX;
    fake_broker_metadata(&broker, 1);
    fake_broker_metadata(&broker, 1);
    cr_assert(eq(int, describe(), ERR_OK));
    container_of(client->links.next, struct client_link, link)->conn.correlation_next = INT32_MAX;
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
}

/* Nor one that ends when it is used again: then the request goes over another, once. */
Test(client_conn, connection_that_breaks_when_used_is_opened_again)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    fake_broker_hang_up(&broker);
    cr_assert(eq(int, describe(), ERR_OK));
    cr_assert(eq(int, describe(), ERR_OK), "%s", client_why(client));
    cr_assert(eq(sz, broker.dialled_count, 2));
    cr_assert(eq(int, describe(), ERR_CLOSED));
    cr_assert(eq(sz, broker.dialled_count, 3));
}

/* Where there is no other, it has failed: once the client went on asking without a pause, for ever.
 */
Test(client_conn, connection_that_breaks_when_used_and_cannot_be_opened_again, .timeout = 20)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hang_up(&broker); /* And every further dial is refused. */
    cr_assert(eq(int, describe(), ERR_OK));
    cr_assert(eq(int, describe(), ERR_CLOSED));
    cr_assert(ne(ptr, strstr(client_why(client), "refused"), NULL), "%s", client_why(client));
}

/* What cannot be done twice is not repeated. */
Test(client_conn, creating_is_not_repeated)
{
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    fake_broker_hang_up(&broker);
    fake_broker_connection(&broker);
    cr_assert(eq(int, describe(), ERR_OK));
    const struct client_new_topic topic = {.name = "t", .partitions_count = 1};
    struct client_topic_result result;
    cr_assert(eq(int, client_create_topics(client, &topic, 1, &result), ERR_CLOSED));
    cr_assert(eq(sz, broker.dialled_count, 1));
}

/* The second address of the options does when the first does not. */
Test(client_conn, addresses_are_tried_in_turn)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    const struct client_options options = {.brokers = "first,second,third", .timeout_ms = 1000};
    cr_assert(client_new_in(&options, &broker.env, why, &c) == ERR_OK);
    fake_broker_refuse(&broker);
    fake_broker_bare_connection(&broker);
    fake_broker_connection(&broker);
    fake_broker_metadata(&broker, 1);
    struct client_cluster *cluster = NULL;
    const uint64_t before_us = broker.clock.now_us;
    cr_assert(eq(int, client_describe(c, NULL, 0, &cluster), ERR_OK), "%s", client_why(c));
    cr_assert(eq(u64, broker.clock.now_us - before_us, 1000000)); /* The second never answers. */
    client_cluster_free(cluster);
    client_free(c);
}

/* Of several failures the first is told: it is about the broker the user thinks of. */
Test(client_conn, the_first_failure_is_told)
{
    char why[CLIENT_WHY_SIZE];
    struct client *c = NULL;
    const struct client_options options = {.brokers = "first,second", .timeout_ms = 1000};
    cr_assert(client_new_in(&options, &broker.env, why, &c) == ERR_OK);
    fake_broker_refuse(&broker);
    fake_broker_refuse(&broker);
    struct client_cluster *cluster = NULL;
    cr_assert(eq(int, client_describe(c, NULL, 0, &cluster), ERR_CLOSED));
    cr_assert(ne(ptr, strstr(client_why(c), "first:9092"), NULL), "%s", client_why(c));
    client_free(c);
}

struct address_row {
    const char *text;
    const char *host; /* NULL: not an address. */
    uint16_t port;
};

Test(client_conn, addresses)
{
    static const struct address_row rows[] = {
        {"a:1", "a", 1},
        {"a", "a", 9092},
        {"[::1]:65535", "::1", 65535},
        {"[::1]", "::1", 9092},
        {"", NULL, 0},
        {":9092", NULL, 0},
        {"a:", NULL, 0},
        {"a:0", NULL, 0},
        {"a:65536", NULL, 0},
        {"a:1x", NULL, 0},
        {"[::1", NULL, 0},
        {"[::1]9092", NULL, 0},
        {"::1", NULL, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct client_address a = {.port = 7};
        const bool is_ok = client_address_parse(slice_of_string(rows[i].text), &a);
        cr_assert(eq(int, is_ok, rows[i].host != NULL), "%s", rows[i].text);
        if (is_ok) {
            cr_assert(eq(str, a.host, (char *)rows[i].host));
            cr_assert(eq(int, a.port, rows[i].port));
        }
    }
}

/* Terminals obey control characters; nobody's words but our own are for that. */
Test(client_conn, the_words_of_a_broker_are_one_line)
{
    char why[CLIENT_WHY_SIZE];
    cr_assert(
        eq(int, client_say(why, ERR_FAILED, "t: %s", "a\nb\x1b[2J\x7f \xc3\xa9"), ERR_FAILED));
    cr_assert(eq(str, why, (char *)"t: a?b?[2J? \xc3\xa9"));
    (void)client_fail(client, ERR_FAILED, "%s", "a\r\nb");
    cr_assert(eq(str, (char *)client_why(client), (char *)"a??b"));
}
