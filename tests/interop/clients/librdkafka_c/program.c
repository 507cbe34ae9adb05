/* librdkafka in C: the contract's verbs (see ../README.md). Reads with the consumer that knows no
 * groups. */
#include <jansson.h>
#include <rdkafka.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    PATIENCE_MS = 30 * 1000,
    FLUSH_MS_MAX = 60 * 1000,
    RECORDS_MAX = 1000,
    BY_DEFAULT = 100,
};

/* The broker's limit is what is tested, not the client's. */
static const char LARGEST[] = "16777216";

static const char BASE64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

_Noreturn static void fail(const char *why)
{
    (void)fprintf(stderr, "%s\n", why);
    exit(1);
}

static void check(rd_kafka_resp_err_t e)
{
    if (e != RD_KAFKA_RESP_ERR_NO_ERROR) {
        fail(rd_kafka_err2str(e));
    }
}

/* Takes the object. */
static void put(json_t *line)
{
    (void)json_dumpf(line, stdout, JSON_COMPACT);
    (void)putchar('\n');
    json_decref(line);
}

/* ---- base64: null stays null ---- */

struct bytes {
    uint8_t *data; /* NULL: null, not empty. */
    size_t size;
};

static json_t *encoded(const void *data, size_t size)
{
    if (data == NULL) {
        return json_null();
    }
    const uint8_t *in = data;
    char *text = malloc(size / 3 * 4 + 5);
    size_t length = 0;
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t group = (uint32_t)in[i] << 16 | (uint32_t)(left > 1 ? in[i + 1] : 0) << 8 |
                               (uint32_t)(left > 2 ? in[i + 2] : 0);
        text[length++] = BASE64[group >> 18];
        text[length++] = BASE64[group >> 12 & 63];
        text[length++] = left > 1 ? BASE64[group >> 6 & 63] : '=';
        text[length++] = left > 2 ? BASE64[group & 63] : '=';
    }
    json_t *found = json_stringn(text, length);
    free(text);
    return found;
}

static struct bytes decoded(const json_t *text)
{
    if (!json_is_string(text)) {
        return (struct bytes){NULL, 0};
    }
    struct bytes out = {malloc(json_string_length(text) + 1), 0};
    uint32_t group = 0;
    unsigned bits = 0;
    for (const char *at = json_string_value(text); *at != '\0' && *at != '='; at++) {
        const char *digit = strchr(BASE64, *at);
        if (digit == NULL) {
            fail("no base64");
        }
        group = group << 6 | (uint32_t)(digit - BASE64);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out.data[out.size++] = (uint8_t)(group >> bits);
        }
    }
    return out;
}

/* ---- the client ---- */

static void set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
    char why[512];
    if (rd_kafka_conf_set(conf, name, value, why, sizeof(why)) != RD_KAFKA_CONF_OK) {
        fail(why);
    }
}

static rd_kafka_conf_t *settings(const char *brokers)
{
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", brokers);
    return conf;
}

/* Takes conf. */
static rd_kafka_t *make(rd_kafka_type_t type, rd_kafka_conf_t *conf)
{
    char why[512];
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof(why));
    if (rk == NULL) {
        fail(why);
    }
    return rk;
}

/* ---- topics ---- */

/* What administers, and where its answers arrive. */
struct admin {
    rd_kafka_t *rk;
    rd_kafka_queue_t *queue;
    const char *topic;
};

static struct admin admin_new(const char *brokers, const char *topic)
{
    rd_kafka_t *rk = make(RD_KAFKA_PRODUCER, settings(brokers));
    return (struct admin){rk, rd_kafka_queue_new(rk), topic};
}

static void admin_free(const struct admin *a)
{
    rd_kafka_queue_destroy(a->queue);
    rd_kafka_destroy(a->rk);
}

/* The answer of the one call under way: to be destroyed. */
static rd_kafka_event_t *answer_of(const struct admin *a)
{
    rd_kafka_event_t *event = rd_kafka_queue_poll(a->queue, PATIENCE_MS);
    if (event == NULL) {
        fail("no answer");
    }
    check(rd_kafka_event_error(event));
    return event;
}

static void check_topic(const rd_kafka_topic_result_t *result)
{
    if (rd_kafka_topic_result_error(result) != RD_KAFKA_RESP_ERR_NO_ERROR) {
        fail(rd_kafka_topic_result_error_string(result));
    }
}

static void create(const struct admin *a, const char *topic, int partitions, bool validate_only)
{
    char why[512];
    rd_kafka_NewTopic_t *wanted = rd_kafka_NewTopic_new(topic, partitions, -1, why, sizeof(why));
    if (wanted == NULL) {
        fail(why);
    }
    rd_kafka_AdminOptions_t *options =
        rd_kafka_AdminOptions_new(a->rk, RD_KAFKA_ADMIN_OP_CREATETOPICS);
    check(rd_kafka_AdminOptions_set_validate_only(options, validate_only, why, sizeof(why)));
    rd_kafka_CreateTopics(a->rk, &wanted, 1, options, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    check_topic(
        rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &count)[0]);
    rd_kafka_event_destroy(event);
    rd_kafka_AdminOptions_destroy(options);
    rd_kafka_NewTopic_destroy(wanted);
}

static void delete_topic(const struct admin *a)
{
    rd_kafka_DeleteTopic_t *doomed = rd_kafka_DeleteTopic_new(a->topic);
    rd_kafka_DeleteTopics(a->rk, &doomed, 1, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    check_topic(
        rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &count)[0]);
    rd_kafka_event_destroy(event);
    rd_kafka_DeleteTopic_destroy(doomed);
}

/* ---- produce ---- */

struct sent {
    rd_kafka_resp_err_t error; /* The first. */
    size_t count;
    int32_t partitions[RECORDS_MAX];
    int64_t offsets[RECORDS_MAX];
};

static void on_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *context)
{
    (void)rk;
    struct sent *sent = context;
    if (m->err != RD_KAFKA_RESP_ERR_NO_ERROR && sent->error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        sent->error = m->err;
    }
    sent->offsets[(uintptr_t)m->_private] = m->offset;
}

static rd_kafka_headers_t *headers_of(const json_t *pairs)
{
    rd_kafka_headers_t *headers = rd_kafka_headers_new(json_array_size(pairs));
    size_t i = 0;
    const json_t *pair = NULL;
    json_array_foreach(pairs, i, pair)
    {
        const struct bytes value = decoded(json_array_get(pair, 1));
        check(rd_kafka_header_add(headers,
                                  json_string_value(json_array_get(pair, 0)),
                                  -1,
                                  value.data,
                                  (ssize_t)value.size));
        free(value.data);
    }
    return headers;
}

static void send_one(rd_kafka_t *rk, const char *topic, const json_t *line, struct sent *sent)
{
    const struct bytes key = decoded(json_object_get(line, "key"));
    const struct bytes value = decoded(json_object_get(line, "value"));
    const uintptr_t number = sent->count++;
    sent->partitions[number] = (int32_t)json_integer_value(json_object_get(line, "partition"));
    rd_kafka_headers_t *headers = headers_of(json_object_get(line, "headers"));
    check(rd_kafka_producev(
        rk,
        RD_KAFKA_V_TOPIC(topic),
        RD_KAFKA_V_PARTITION(sent->partitions[number]),
        RD_KAFKA_V_KEY(key.data, key.size),
        RD_KAFKA_V_VALUE(value.data, value.size),
        RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
        RD_KAFKA_V_HEADERS(headers), /* Taken. */
        RD_KAFKA_V_TIMESTAMP(json_integer_value(json_object_get(line, "timestamp"))),
        RD_KAFKA_V_OPAQUE((void *)number),
        RD_KAFKA_V_END));
    free(key.data);
    free(value.data);
}

static void produce(const char *brokers, char **args)
{
    const char *topic = args[0];
    const bool is_idempotent = strcmp(args[3], "1") == 0;
    if (is_idempotent && strcmp(args[2], "-1") != 0) {
        put(json_pack(
            "{ss}", "unsupported", "librdkafka refuses idempotence with acks other than all"));
        return;
    }
    struct sent *sent = calloc(1, sizeof(*sent));
    rd_kafka_conf_t *conf = settings(brokers);
    set(conf, "compression.type", args[1]);
    set(conf, "acks", args[2]);
    set(conf, "enable.idempotence", is_idempotent ? "true" : "false");
    set(conf, "message.max.bytes", LARGEST);
    set(conf, "linger.ms", "20");
    rd_kafka_conf_set_dr_msg_cb(conf, on_delivery);
    rd_kafka_conf_set_opaque(conf, sent);
    rd_kafka_t *rk = make(RD_KAFKA_PRODUCER, conf);
    json_t *line = NULL;
    while (sent->count < RECORDS_MAX &&
           (line = json_loadf(stdin, JSON_DISABLE_EOF_CHECK, NULL)) != NULL) {
        send_one(rk, topic, line, sent);
        json_decref(line);
    }
    check(rd_kafka_flush(rk, FLUSH_MS_MAX));
    check(sent->error);
    for (size_t i = 0; i < sent->count; i++) {
        /* With acks 0 none is known. */
        json_t *offset = sent->offsets[i] < 0 ? json_null() : json_integer(sent->offsets[i]);
        put(json_pack("{siso}", "partition", (int)sent->partitions[i], "offset", offset));
    }
    rd_kafka_destroy(rk);
    free(sent);
}

/* ---- read, lookup ---- */

static void put_message(const rd_kafka_message_t *m)
{
    json_t *pairs = json_array();
    rd_kafka_headers_t *headers = NULL;
    if (rd_kafka_message_headers(m, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR) {
        const char *name = NULL;
        const void *value = NULL;
        size_t size = 0;
        for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &value, &size) == 0; i++) {
            (void)json_array_append_new(pairs, json_pack("[so]", name, encoded(value, size)));
        }
    }
    put(json_pack("{sisosososIsI}",
                  "partition",
                  (int)m->partition,
                  "key",
                  encoded(m->key, m->key_len),
                  "value",
                  encoded(m->payload, m->len),
                  "headers",
                  pairs,
                  "timestamp",
                  (json_int_t)rd_kafka_message_timestamp(m, NULL),
                  "offset",
                  (json_int_t)m->offset));
}

static void read_all(const char *brokers, const char *topic, int partitions)
{
    rd_kafka_t *rk = make(RD_KAFKA_CONSUMER, settings(brokers));
    rd_kafka_topic_t *rkt = rd_kafka_topic_new(rk, topic, NULL);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
    int64_t *ends = calloc((size_t)partitions, sizeof(*ends));
    int left = 0;
    for (int i = 0; i < partitions; i++) {
        int64_t first = 0;
        check(rd_kafka_query_watermark_offsets(rk, topic, i, &first, &ends[i], PATIENCE_MS));
        if (ends[i] > first && rd_kafka_consume_start_queue(rkt, i, first, queue) == 0) {
            left++;
        }
    }
    while (left > 0) {
        rd_kafka_message_t *m = rd_kafka_consume_queue(queue, PATIENCE_MS);
        if (m == NULL) {
            fail("no record for 30 s");
        }
        check(m->err);
        put_message(m);
        left -= m->offset + 1 == ends[m->partition] ? 1 : 0;
        rd_kafka_message_destroy(m);
    }
    for (int i = 0; i < partitions; i++) {
        (void)rd_kafka_consume_stop(rkt, i); /* No error where none was started is of interest. */
    }
    free(ends);
    rd_kafka_queue_destroy(queue);
    rd_kafka_topic_destroy(rkt);
    rd_kafka_destroy(rk);
}

static void lookup(const char *brokers, const char *topic, int partition, int64_t timestamp)
{
    rd_kafka_t *rk = make(RD_KAFKA_CONSUMER, settings(brokers));
    rd_kafka_topic_partition_list_t *times = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(times, topic, partition)->offset = timestamp;
    check(rd_kafka_offsets_for_times(rk, times, PATIENCE_MS));
    check(times->elems[0].err);
    const int64_t offset = times->elems[0].offset;
    put(json_pack("{sIsn}", "offset", (json_int_t)(offset < 0 ? -1 : offset), "timestamp"));
    rd_kafka_topic_partition_list_destroy(times);
    rd_kafka_destroy(rk);
}

/* ---- admin ---- */

static void put_call(const char *call, json_t *answer)
{
    put(json_pack("{ssso}", "call", call, "answer", answer));
}

static json_t *broker_ids(const struct admin *a)
{
    rd_kafka_DescribeCluster(a->rk, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    const rd_kafka_Node_t **nodes =
        rd_kafka_DescribeCluster_result_nodes(rd_kafka_event_DescribeCluster_result(event), &count);
    json_t *ids = json_array();
    for (size_t i = 0; i < count; i++) {
        (void)json_array_append_new(ids, json_integer(rd_kafka_Node_id(nodes[i])));
    }
    rd_kafka_event_destroy(event);
    return ids;
}

static json_t *is_listed(const struct admin *a, const char *topic)
{
    const struct rd_kafka_metadata *metadata = NULL;
    check(rd_kafka_metadata(a->rk, 1, NULL, &metadata, PATIENCE_MS));
    bool is_there = false;
    for (int i = 0; i < metadata->topic_cnt; i++) {
        is_there = is_there || strcmp(metadata->topics[i].topic, topic) == 0;
    }
    rd_kafka_metadata_destroy(metadata);
    return json_boolean(is_there);
}

/* How many partitions, or the error's code. */
static json_t *described(const struct admin *a, const char *topic)
{
    rd_kafka_TopicCollection_t *one = rd_kafka_TopicCollection_of_topic_names(&topic, 1);
    rd_kafka_DescribeTopics(a->rk, one, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    const rd_kafka_TopicDescription_t *found = rd_kafka_DescribeTopics_result_topics(
        rd_kafka_event_DescribeTopics_result(event), &count)[0];
    const rd_kafka_error_t *error = rd_kafka_TopicDescription_error(found);
    if (error == NULL) {
        (void)rd_kafka_TopicDescription_partitions(found, &count);
    }
    json_t *answer =
        json_integer(error == NULL ? (json_int_t)count : (json_int_t)rd_kafka_error_code(error));
    rd_kafka_event_destroy(event);
    rd_kafka_TopicCollection_destroy(one);
    return answer;
}

static json_t *
config_of(const struct admin *a, rd_kafka_ResourceType_t type, const char *name, const char *config)
{
    rd_kafka_ConfigResource_t *wanted = rd_kafka_ConfigResource_new(type, name);
    rd_kafka_DescribeConfigs(a->rk, &wanted, 1, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    const rd_kafka_ConfigResource_t *found = rd_kafka_DescribeConfigs_result_resources(
        rd_kafka_event_DescribeConfigs_result(event), &count)[0];
    check(rd_kafka_ConfigResource_error(found));
    const rd_kafka_ConfigEntry_t **entries = rd_kafka_ConfigResource_configs(found, &count);
    json_t *value = json_null();
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), config) == 0) {
            value = json_string(rd_kafka_ConfigEntry_value(entries[i]));
        }
    }
    rd_kafka_event_destroy(event);
    rd_kafka_ConfigResource_destroy(wanted);
    return value;
}

static json_t *retention(const struct admin *a)
{
    return config_of(a, RD_KAFKA_RESOURCE_TOPIC, a->topic, "retention.ms");
}

/* Gives the code of the error. */
static rd_kafka_resp_err_t
alter(const struct admin *a, rd_kafka_AlterConfigOpType_t operation, const char *value)
{
    rd_kafka_ConfigResource_t *wanted =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, a->topic);
    rd_kafka_error_t *error =
        rd_kafka_ConfigResource_add_incremental_config(wanted, "retention.ms", operation, value);
    if (error != NULL) {
        fail(rd_kafka_error_string(error));
    }
    rd_kafka_IncrementalAlterConfigs(a->rk, &wanted, 1, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    const rd_kafka_resp_err_t code =
        rd_kafka_ConfigResource_error(rd_kafka_IncrementalAlterConfigs_result_resources(
            rd_kafka_event_IncrementalAlterConfigs_result(event), &count)[0]);
    rd_kafka_event_destroy(event);
    rd_kafka_ConfigResource_destroy(wanted);
    return code;
}

static void replace(const struct admin *a, const char *value)
{
    rd_kafka_ConfigResource_t *wanted =
        rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, a->topic);
    check(rd_kafka_ConfigResource_set_config(wanted, "retention.ms", value));
    rd_kafka_AlterConfigs(a->rk, &wanted, 1, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    check(rd_kafka_ConfigResource_error(rd_kafka_AlterConfigs_result_resources(
        rd_kafka_event_AlterConfigs_result(event), &count)[0]));
    rd_kafka_event_destroy(event);
    rd_kafka_ConfigResource_destroy(wanted);
}

static void grow(const struct admin *a, size_t partitions)
{
    char why[512];
    rd_kafka_NewPartitions_t *wanted =
        rd_kafka_NewPartitions_new(a->topic, partitions, why, sizeof(why));
    if (wanted == NULL) {
        fail(why);
    }
    rd_kafka_CreatePartitions(a->rk, &wanted, 1, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    check_topic(rd_kafka_CreatePartitions_result_topics(
        rd_kafka_event_CreatePartitions_result(event), &count)[0]);
    rd_kafka_event_destroy(event);
    rd_kafka_NewPartitions_destroy(wanted);
}

/* One partition with an offset. */
static rd_kafka_topic_partition_list_t *listed(const char *topic, int partition, int64_t offset)
{
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
    rd_kafka_topic_partition_list_add(list, topic, partition)->offset = offset;
    return list;
}

/* spec: a time, or one of rd_kafka_OffsetSpec_t. */
static json_t *offset_of(const struct admin *a, int64_t spec)
{
    rd_kafka_topic_partition_list_t *wanted = listed(a->topic, 1, spec);
    rd_kafka_ListOffsets(a->rk, wanted, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    const rd_kafka_topic_partition_t *found = rd_kafka_ListOffsetsResultInfo_topic_partition(
        rd_kafka_ListOffsets_result_infos(rd_kafka_event_ListOffsets_result(event), &count)[0]);
    check(found->err);
    json_t *offset = json_integer(found->offset);
    rd_kafka_event_destroy(event);
    rd_kafka_topic_partition_list_destroy(wanted);
    return offset;
}

/* Gives the first offset that is left. */
static json_t *delete_records(const struct admin *a, int64_t before)
{
    rd_kafka_topic_partition_list_t *list = listed(a->topic, 1, before);
    rd_kafka_DeleteRecords_t *wanted = rd_kafka_DeleteRecords_new(list);
    rd_kafka_DeleteRecords(a->rk, &wanted, 1, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    const rd_kafka_topic_partition_t *left =
        &rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event))
             ->elems[0];
    check(left->err);
    json_t *offset = json_integer(left->offset);
    rd_kafka_event_destroy(event);
    rd_kafka_DeleteRecords_destroy(wanted);
    rd_kafka_topic_partition_list_destroy(list);
    return offset;
}

/* Gives the code of the partition's error. */
static json_t *elect(const struct admin *a)
{
    rd_kafka_topic_partition_list_t *list = listed(a->topic, 0, 0);
    rd_kafka_ElectLeaders_t *wanted =
        rd_kafka_ElectLeaders_new(RD_KAFKA_ELECTION_TYPE_PREFERRED, list);
    rd_kafka_ElectLeaders(a->rk, wanted, NULL, a->queue);
    rd_kafka_event_t *event = answer_of(a);
    size_t count = 0;
    const rd_kafka_error_t *error =
        rd_kafka_topic_partition_result_error(rd_kafka_ElectLeaders_result_partitions(
            rd_kafka_event_ElectLeaders_result(event), &count)[0]);
    json_t *code = json_integer(rd_kafka_error_code(error));
    rd_kafka_event_destroy(event);
    rd_kafka_ElectLeaders_destroy(wanted);
    rd_kafka_topic_partition_list_destroy(list);
    return code;
}

static void on_default_delivery(rd_kafka_t *rk, const rd_kafka_message_t *m, void *context)
{
    (void)rk;
    check(m->err);
    ++*(json_int_t *)context;
}

static json_t *produced_by_default(const char *brokers, const char *topic)
{
    json_int_t delivered = 0;
    rd_kafka_conf_t *conf = settings(brokers);
    rd_kafka_conf_set_dr_msg_cb(conf, on_default_delivery);
    rd_kafka_conf_set_opaque(conf, &delivered);
    rd_kafka_t *rk = make(RD_KAFKA_PRODUCER, conf);
    for (int i = 0; i < BY_DEFAULT; i++) {
        char text[16];
        const int size = snprintf(text, sizeof(text), "%d", i);
        check(rd_kafka_producev(rk,
                                RD_KAFKA_V_TOPIC(topic),
                                RD_KAFKA_V_VALUE(text, (size_t)size),
                                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY),
                                RD_KAFKA_V_END));
    }
    check(rd_kafka_flush(rk, FLUSH_MS_MAX));
    rd_kafka_destroy(rk);
    return json_integer(delivered);
}

static void administer(const struct admin *a, const char *brokers, int64_t timestamp)
{
    char missing[256];
    (void)snprintf(missing, sizeof(missing), "%s-no", a->topic);
    put_call("describe cluster", broker_ids(a));
    put_call("list topics", is_listed(a, a->topic));
    put_call("describe topic", described(a, a->topic));
    put_call("describe missing topic", described(a, missing));
    create(a, missing, 1, true);
    put_call("check a creation", is_listed(a, missing));
    put_call("describe topic config", retention(a));
    check(alter(a, RD_KAFKA_ALTER_CONFIG_OP_TYPE_SET, "1234567890"));
    put_call("alter topic config", retention(a));
    check(alter(a, RD_KAFKA_ALTER_CONFIG_OP_TYPE_DELETE, NULL));
    put_call("reset topic config", retention(a));
    replace(a, "7654321000");
    put_call("replace topic configs", retention(a));
    put_call("refused topic config",
             json_integer(alter(a, RD_KAFKA_ALTER_CONFIG_OP_TYPE_SET, "soon")));
    put_call("describe broker config",
             config_of(a, RD_KAFKA_RESOURCE_BROKER, "1", "message.max.bytes"));
    grow(a, 3);
    put_call("add partitions", described(a, a->topic));
    put_call("earliest offset", offset_of(a, RD_KAFKA_OFFSET_SPEC_EARLIEST));
    put_call("latest offset", offset_of(a, RD_KAFKA_OFFSET_SPEC_LATEST));
    put_call("offset of latest time", offset_of(a, RD_KAFKA_OFFSET_SPEC_MAX_TIMESTAMP));
    put_call("offset for a time", offset_of(a, timestamp));
    put_call("delete records", delete_records(a, 4));
    put_call("elect leaders", elect(a));
    (void)snprintf(missing, sizeof(missing), "%s-default", a->topic);
    put_call("produce by default", produced_by_default(brokers, missing));
}

/* The verbs that need no more than the admin. */
static bool topic_verb(const char *brokers, const char *verb, char **args, int count)
{
    if (count < 1) {
        return false;
    }
    const struct admin a = admin_new(brokers, args[0]);
    bool is_known = true;
    if (strcmp(verb, "create") == 0 && count == 2) {
        create(&a, args[0], atoi(args[1]), false);
    } else if (strcmp(verb, "delete") == 0 && count == 1) {
        delete_topic(&a);
    } else if (strcmp(verb, "admin") == 0 && count == 2) {
        administer(&a, brokers, atoll(args[1]));
    } else {
        is_known = false;
    }
    admin_free(&a);
    return is_known;
}

/* Without what rd_kafka_version_str tells of the build. */
static void versions(void)
{
    const int v = rd_kafka_version();
    char text[32];
    (void)snprintf(text, sizeof(text), "%d.%d.%d", v >> 24 & 255, v >> 16 & 255, v >> 8 & 255);
    put(json_pack("{ssss}", "client", "librdkafka", "version", text));
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        fail("usage: program BROKERS VERB ARGS...");
    }
    const char *brokers = argv[1];
    const char *verb = argv[2];
    char **args = argv + 3;
    const int count = argc - 3;
    if (strcmp(verb, "versions") == 0) {
        versions();
    } else if (strcmp(verb, "produce") == 0 && count == 4) {
        produce(brokers, args);
    } else if (strcmp(verb, "read") == 0 && count == 2) {
        read_all(brokers, args[0], atoi(args[1]));
    } else if (strcmp(verb, "lookup") == 0 && count == 3) {
        lookup(brokers, args[0], atoi(args[1]), atoll(args[2]));
    } else if (!topic_verb(brokers, verb, args, count)) {
        fail("no such verb");
    }
    return 0;
}
