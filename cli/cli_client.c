#include "cli/cli_client.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli_parse.h"
#include "core/edit_distance.h"
#include "core/wbuf.h"

static const char brokers_default[] = "127.0.0.1:9092";

const char *cli_brokers(const struct cli *cli)
{
    const char *environment = getenv("COREFLUME_BROKERS");
    const bool is_set = environment != NULL && environment[0] != '\0';
    return cli_text(cli, "brokers", is_set ? environment : brokers_default);
}

int cli_client_new(struct cli *cli, struct client **ret_client)
{
    char why[CLIENT_WHY_SIZE];
    const struct client_options options = {
        .brokers = cli_brokers(cli),
        .client_id = "coreflume-cli",
    };
    enum err e = client_new(&options, why, ret_client);
    if (e == ERR_OK) {
        return CLI_OK;
    }
    return cli_fail(cli, e == ERR_INVALID ? CLI_USAGE : CLI_FAILED, "%s", why);
}

static const char *const codecs[] = {
    [CLIENT_CODEC_NONE] = "none",
    [CLIENT_CODEC_GZIP] = "gzip",
    [CLIENT_CODEC_SNAPPY] = "snappy",
    [CLIENT_CODEC_LZ4] = "lz4",
    [CLIENT_CODEC_ZSTD] = "zstd",
};

enum client_codec cli_codec(const struct cli *cli)
{
    const char *name = cli_text(cli, "codec", "none");
    enum client_codec codec = CLIENT_CODEC_NONE;
    for (size_t i = 0; i < sizeof(codecs) / sizeof(codecs[0]); i++) {
        if (strcmp(codecs[i], name) == 0) {
            codec = (enum client_codec)i;
        }
    }
    return codec;
}

enum client_acks cli_acks(const struct cli *cli)
{
    const char *text = cli_text(cli, "acks", "all");
    if (strcmp(text, "0") == 0) {
        return CLIENT_ACKS_NONE;
    }
    return strcmp(text, "1") == 0 ? CLIENT_ACKS_LEADER : CLIENT_ACKS_ALL;
}

/* The topic whose name is nearest to one that does not exist, if it is near enough to be meant. */
static bool find_nearest(struct client *c, const char *topic, char *ret_name, size_t size)
{
    struct client_cluster *cluster = NULL;
    if (client_describe(c, NULL, 0, &cluster) != ERR_OK) {
        return false;
    }
    size_t best = strlen(topic) / 3 + 2;
    bool is_found = false;
    for (size_t i = 0; i < cluster->topics_count; i++) {
        const struct slice name = cluster->topics[i].name;
        char text[TOPIC_NAME_SIZE_MAX + 1];
        (void)snprintf(text, sizeof(text), "%.*s", (int)name.size, (const char *)name.data);
        const size_t distance = edit_distance(topic, text);
        if (distance < best) {
            best = distance;
            is_found = true;
            (void)snprintf(ret_name, size, "%s", text);
        }
    }
    client_cluster_free(cluster);
    return is_found;
}

/* what: that it does not exist, or was deleted. */
static int say_unknown_topic(struct cli *cli, struct client *c, const char *what, const char *topic)
{
    char nearest[TOPIC_NAME_SIZE_MAX + 1];
    const bool is_near = find_nearest(c, topic, nearest, sizeof(nearest));
    return cli_fail(cli,
                    CLI_FAILED,
                    "%s:%s%s%s make it with: coreflume topic create %s",
                    what,
                    is_near ? " did you mean '" : "",
                    is_near ? nearest : "",
                    is_near ? "'?" : "",
                    topic);
}

int cli_client_fail(struct cli *cli, struct client *c, enum err e, const char *topic)
{
    char why[CLIENT_WHY_SIZE];
    (void)snprintf(why, sizeof(why), "%s", client_why(c));
    if (!client_was_connected(c) && (e == ERR_CLOSED || e == ERR_TIMED_OUT)) {
        return cli_fail(
            cli, CLI_FAILED, "%s: is the broker running? start one with: coreflume start", why);
    }
    if (e == ERR_TOPIC_UNKNOWN && topic != NULL) {
        return say_unknown_topic(cli, c, why, topic);
    }
    return cli_fail(cli, CLI_FAILED, "%s", why);
}

int cli_result_fail(struct cli *cli,
                    struct client *c,
                    const char *name,
                    const struct client_topic_result *r)
{
    if (r->err == ERR_TOPIC_UNKNOWN) {
        char why[CLIENT_WHY_SIZE];
        (void)snprintf(why, sizeof(why), "topic '%.400s' does not exist", name);
        return say_unknown_topic(cli, c, why, name);
    }
    return cli_fail(cli, CLI_FAILED, "%s: %s", name, r->why);
}

int cli_print_json(struct cli *cli, json_t *json)
{
    if (json == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory for the output");
    }
    const int result = json_dumpf(json, cli->out, JSON_COMPACT);
    json_decref(json);
    (void)fputc('\n', cli->out);
    /* What could not be written is noticed at the end, by cli_main. */
    return result == 0 || ferror(cli->out)
               ? CLI_OK
               : cli_fail(cli, CLI_FAILED, "no memory for the output: its last line is cut");
}

/* The length of the UTF-8 character at data, or 0 if it is none. */
static size_t character_size(const uint8_t *data, size_t left)
{
    const uint8_t lead = data[0];
    const size_t size = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size == 0 || lead > 0xF4 || size > left) {
        return 0;
    }
    for (size_t i = 1; i < size; i++) {
        if ((data[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    /* Overlong forms, surrogates, and what is above U+10FFFF. */
    const uint8_t second = size > 1 ? data[1] : 0;
    const bool is_bad = (lead == 0xE0 && second < 0xA0) || (lead == 0xED && second >= 0xA0) ||
                        (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second >= 0x90);
    return is_bad ? 0 : size;
}

json_t *cli_json_slice(struct slice s)
{
    if (slice_is_null(s)) {
        return json_null();
    }
    json_t *text = json_stringn((const char *)s.data, s.size);
    if (text != NULL) {
        return text;
    }
    struct wbuf w;
    wbuf_init(&w, s.size * 3 + 1);
    for (size_t i = 0; i < s.size;) {
        const size_t size = character_size(s.data + i, s.size - i);
        wbuf_bytes(&w, size == 0 ? (const void *)"\xEF\xBF\xBD" : s.data + i, size == 0 ? 3 : size);
        i += size == 0 ? 1 : size;
    }
    text = wbuf_failure(&w) == ERR_OK ? json_stringn((const char *)w.data, w.size) : NULL;
    wbuf_done(&w);
    return text;
}
