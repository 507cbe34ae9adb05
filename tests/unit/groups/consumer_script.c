#include "tests/unit/groups/consumer_script.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/metadata.h"
#include "core/rbuf.h"
#include "core/wbuf.h"
#include "kafka/proto/consumer_group_describe.h"
#include "kafka/proto/consumer_group_heartbeat.h"
#include "kafka/proto/consumer_protocol_assignment.h"
#include "kafka/proto/consumer_protocol_subscription.h"
#include "kafka/proto/error_codes.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/internal_record.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/sync_group.h"
#include "storage/batch.h"

enum {
    WORDS_MAX = 16,
    LINE_SIZE_MAX = 4096,
    PEOPLE_MAX = 64,
    SET_MAX = 256,
};

struct named_partition {
    const struct topic *topic;
    int32_t partition;
};

struct person {
    char id[64];
    struct slice real_id;  /* If the coordinator made one. */
    struct rig_call *join; /* Not answered yet, as the next. */
    struct rig_call *sync;
    int32_t epoch;
    struct named_partition set[SET_MAX]; /* What its answers gave it. */
    size_t set_count;
};

struct script {
    struct rig *r;
    FILE *out;
    struct person people[PEOPLE_MAX];
    size_t people_count;
    char *words[WORDS_MAX];
    size_t words_count;
    size_t batches_shown;
    struct rig_call *held; /* Sent while batches are held back. */
    struct person *held_of;
};

static struct person *person_of(struct script *s, const char *id)
{
    for (size_t i = 0; i < s->people_count; i++) {
        if (strcmp(s->people[i].id, id) == 0) {
            return &s->people[i];
        }
    }
    cr_assert(lt(sz, s->people_count, PEOPLE_MAX));
    struct person *p = &s->people[s->people_count++];
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    return p;
}

/* NULL if it is not given. */
static const char *option(const struct script *s, const char *name)
{
    const size_t size = strlen(name);
    for (size_t i = 1; i < s->words_count; i++) {
        if (strncmp(s->words[i], name, size) == 0 && s->words[i][size] == '=') {
            return s->words[i] + size + 1;
        }
    }
    return NULL;
}

static int32_t number(const struct script *s, const char *name, int32_t otherwise)
{
    const char *text = option(s, name);
    return text == NULL ? otherwise : (int32_t)strtol(text, NULL, 10);
}

static const struct topic *topic_of(const struct script *s, const char *name)
{
    const struct topic *t = metadata_topic_by_name(s->r->metadata, slice_of_string(name));
    cr_assert(t != NULL, "topic %s", name);
    return t;
}

static struct slice real_id(const struct script *s, const struct person *p)
{
    return slice_is_null(p->real_id) ? rig_text(s->r, p->id) : p->real_id;
}

/* The name of whoever has that id. */
static struct slice name_of(const struct script *s, struct slice id)
{
    for (size_t i = 0; i < s->people_count; i++) {
        if (slice_equal(real_id(s, &s->people[i]), id)) {
            return slice_of_string(s->people[i].id);
        }
    }
    return id;
}

/* ---- requests ---- */

static void set_topics(const struct script *s, struct consumer_group_heartbeat_request *in)
{
    const char *text = option(s, "topics");
    if (text == NULL) {
        return;
    }
    char *copy = (char *)(uintptr_t)rig_text(s->r, text).data;
    in->subscribed_topic_names = rig_alloc(s->r, strlen(text) + 1, sizeof(struct slice));
    for (char *save = NULL, *name = strtok_r(copy, ",", &save); name != NULL;
         name = strtok_r(NULL, ",", &save)) {
        in->subscribed_topic_names[in->subscribed_topic_names_count++] = slice_of_string(name);
    }
}

static void add_owned(const struct script *s,
                      struct consumer_group_heartbeat_request *in,
                      const struct topic *topic,
                      int32_t partition)
{
    struct consumer_group_heartbeat_request_topic_partition *t =
        &in->topic_partitions[in->topic_partitions_count++];
    t->topic_id = topic->id;
    t->partitions = rig_alloc(s->r, 1, sizeof(int32_t));
    t->partitions[0] = partition;
    t->partitions_count = 1;
}

static void set_owned(const struct script *s,
                      const struct person *p,
                      const char *text,
                      struct consumer_group_heartbeat_request *in)
{
    if (text == NULL || strcmp(text, "null") == 0) {
        in->topic_partitions = NULL;
        return;
    }
    in->topic_partitions = rig_alloc(s->r, SET_MAX, sizeof(*in->topic_partitions));
    for (size_t i = 0; strcmp(text, "all") == 0 && i < p->set_count; i++) {
        add_owned(s, in, p->set[i].topic, p->set[i].partition);
    }
    if (strcmp(text, "all") == 0) {
        return;
    }
    char *copy = (char *)(uintptr_t)rig_text(s->r, text).data;
    for (char *save = NULL, *item = strtok_r(copy, ",", &save); item != NULL;
         item = strtok_r(NULL, ",", &save)) {
        char *colon = strchr(item, ':');
        cr_assert(colon != NULL);
        *colon = '\0';
        add_owned(s, in, topic_of(s, item), (int32_t)strtol(colon + 1, NULL, 10));
    }
}

static struct consumer_group_heartbeat_request *
new_request(const struct script *s, const struct person *p, int32_t epoch)
{
    struct consumer_group_heartbeat_request *in = rig_alloc(s->r, 1, sizeof(*in));
    const bool is_join = epoch == 0;
    consumer_group_heartbeat_request_init(in);
    const char *group = option(s, "group");
    const char *id = option(s, "id");
    in->group_id = rig_text(s->r, group == NULL ? "g" : group);
    in->member_id = id != NULL ? rig_text(s->r, id) : real_id(s, p);
    in->member_epoch = number(s, "epoch", epoch);
    in->instance_id = rig_text(s->r, option(s, "instance"));
    in->rack_id = rig_text(s->r, option(s, "rack"));
    in->rebalance_timeout_ms = number(s, "timeout", is_join ? 60000 : -1);
    in->subscribed_topic_regex = rig_text(s->r, option(s, "regex"));
    in->server_assignor = rig_text(s->r, option(s, "assignor"));
    set_topics(s, in);
    const char *owned = option(s, "owned");
    set_owned(s, p, owned == NULL && is_join ? "" : owned, in);
    return in;
}

/* ---- answers ---- */

static int compare_named(const void *a, const void *b)
{
    const struct named_partition *left = a;
    const struct named_partition *right = b;
    const int order = strcmp(left->topic->name, right->topic->name);
    return order != 0 ? order : left->partition - right->partition;
}

static void print_set(const struct script *s, const struct named_partition *set, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fprintf(s->out, " %s:%d", set[i].topic->name, set[i].partition);
    }
    fprintf(s->out, count == 0 ? " nothing" : "");
}

static void take_assignment(const struct script *s,
                            struct person *p,
                            const struct consumer_group_heartbeat_response_assignment *a)
{
    p->set_count = 0;
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        const struct consumer_group_heartbeat_response_topic_partitions *t =
            &a->topic_partitions[i];
        const struct topic *topic = metadata_topic_by_id(s->r->metadata, &t->topic_id);
        for (size_t j = 0; topic != NULL && j < t->partitions_count; j++) {
            cr_assert(lt(sz, p->set_count, SET_MAX));
            p->set[p->set_count++] = (struct named_partition){topic, t->partitions[j]};
        }
    }
    qsort(p->set, p->set_count, sizeof(p->set[0]), compare_named);
}

static void print_answer(struct script *s, const struct rig_call *call, struct person *p)
{
    if (!call->is_answered) {
        fprintf(s->out, "%s: waits\n", p->id);
        return;
    }
    const struct consumer_group_heartbeat_response *out = rig_answer(call);
    if (out->error_code != KAFKA_NONE) {
        fprintf(s->out,
                "%s: %s: %.*s\n",
                p->id,
                kafka_error_name(out->error_code),
                (int)out->error_message.size,
                (const char *)out->error_message.data);
        return;
    }
    if (out->member_epoch < 0) {
        fprintf(s->out, "%s: gone, epoch %d\n", p->id, out->member_epoch);
        return;
    }
    p->epoch = out->member_epoch;
    fprintf(s->out, "%s: epoch %d, %d ms,", p->id, out->member_epoch, out->heartbeat_interval_ms);
    if (out->assignment == NULL) {
        fprintf(s->out, " unchanged\n");
        return;
    }
    take_assignment(s, p, out->assignment);
    print_set(s, p->set, p->set_count);
    fprintf(s->out, "\n");
}

static void send(struct script *s, int32_t epoch_or_known)
{
    enum {
        KNOWN = INT32_MAX,
    };
    cr_assert(lt(sz, 1, s->words_count));
    struct person *p = person_of(s, s->words[1]);
    const struct consumer_group_heartbeat_request *in =
        new_request(s, p, epoch_or_known == KNOWN ? p->epoch : epoch_or_known);
    const char *group = option(s, "group");
    struct rig_call *call = rig_send(s->r,
                                     GROUP_CONSUMER_HEARTBEAT,
                                     (int16_t)number(s, "v", 1),
                                     group == NULL ? "g" : group,
                                     in);
    print_answer(s, call, p);
    if (!call->is_answered) {
        s->held = call;
        s->held_of = p;
    }
}

/* ---- descriptions ---- */

static int compare_members(const void *a, const void *b, void *context)
{
    const struct consumer_group_describe_response_member *left = a;
    const struct consumer_group_describe_response_member *right = b;
    return slice_compare(name_of(context, left->member_id), name_of(context, right->member_id));
}

static void print_assignment(const struct script *s,
                             const struct consumer_group_describe_response_assignment *a)
{
    struct named_partition set[SET_MAX];
    size_t count = 0;
    for (size_t i = 0; i < a->topic_partitions_count; i++) {
        const struct consumer_group_describe_response_topic_partitions *t = &a->topic_partitions[i];
        for (size_t j = 0; j < t->partitions_count; j++) {
            set[count++] = (struct named_partition){
                metadata_topic_by_id(s->r->metadata, &t->topic_id), t->partitions[j]};
        }
    }
    qsort(set, count, sizeof(set[0]), compare_named);
    print_set(s, set, count);
}

static void describe(struct script *s)
{
    const char *group = option(s, "group");
    struct rig_call *call =
        rig_send(s->r, GROUP_CONSUMER_DESCRIBE, 1, group == NULL ? "g" : group, NULL);
    const struct consumer_group_describe_response_group *out = rig_answer(call);
    if (out->error_code != KAFKA_NONE) {
        fprintf(s->out,
                "%s: %.*s\n",
                kafka_error_name(out->error_code),
                (int)out->error_message.size,
                (const char *)out->error_message.data);
        return;
    }
    fprintf(s->out,
            "%.*s, epoch %d, target of %d, %.*s\n",
            (int)out->group_state.size,
            (const char *)out->group_state.data,
            out->group_epoch,
            out->assignment_epoch,
            (int)out->assignor_name.size,
            (const char *)out->assignor_name.data);
    qsort_r(out->members, out->members_count, sizeof(out->members[0]), compare_members, s);
    for (size_t i = 0; i < out->members_count; i++) {
        const struct consumer_group_describe_response_member *m = &out->members[i];
        const struct slice name = name_of(s, m->member_id);
        fprintf(s->out,
                "  %.*s%s epoch %d has",
                (int)name.size,
                (const char *)name.data,
                m->member_type == 0 ? " (classic)" : "",
                m->member_epoch);
        print_assignment(s, &m->assignment);
        fprintf(s->out, "; is to have");
        print_assignment(s, &m->target_assignment);
        fprintf(s->out, "\n");
    }
}

static void print_record(struct script *s, const struct record *r)
{
    struct wbuf w;
    struct arena a;
    int16_t type = 0;
    wbuf_init(&w, 1 << 20);
    arena_init(&a, 1 << 20);
    cr_assert(eq(int, internal_record_number(r->key, &type), ERR_OK));
    cr_assert(eq(int, internal_record_dump_key(&w, &a, r->key), ERR_OK));
    wbuf_bytes(&w, " ", 1);
    cr_assert(eq(int, internal_record_dump_value(&w, &a, type, r->value), ERR_OK));
    fprintf(s->out, "  %.*s\n", (int)w.size, (const char *)w.data);
    wbuf_done(&w);
    arena_done(&a);
}

static void records(struct script *s)
{
    for (; s->batches_shown < s->r->batches_count; s->batches_shown++) {
        const struct rig_batch *b = &s->r->batches[s->batches_shown];
        struct batch_header h;
        struct slice bytes;
        struct wbuf w;
        struct record_cursor cursor;
        struct record record;
        wbuf_init(&w, 1 << 20);
        cr_assert(eq(int, batch_header_decode(slice_of(b->bytes, b->size), &h), ERR_OK));
        cr_assert(eq(int, batch_records(slice_of(b->bytes, b->size), 1 << 20, &w, &bytes), ERR_OK));
        record_cursor_init(&cursor, &h, bytes);
        fprintf(s->out, "batch\n");
        while (record_next(&cursor, &record) == ERR_OK) {
            print_record(s, &record);
        }
        wbuf_done(&w);
    }
}

/* ---- classic members ---- */

static struct slice take_bytes(const struct script *s, struct wbuf *w)
{
    void *copy = rig_alloc(s->r, w->size + 1, 1);
    memcpy(copy, w->data, w->size);
    const struct slice bytes = slice_of(copy, w->size);
    wbuf_done(w);
    return bytes;
}

/* "malformed" instead of topics: bytes that are none. */
static struct slice subscription_of(const struct script *s, const struct person *p)
{
    struct consumer_group_heartbeat_request like;
    consumer_group_heartbeat_request_init(&like);
    set_topics(s, &like);
    set_owned(s, p, option(s, "owned"), &like);
    struct consumer_protocol_subscription v;
    struct wbuf w;
    consumer_protocol_subscription_init(&v);
    v.topics = like.subscribed_topic_names;
    v.topics_count = like.subscribed_topic_names_count;
    v.owned_partitions =
        rig_alloc(s->r, like.topic_partitions_count, sizeof(v.owned_partitions[0]));
    for (size_t i = 0; i < like.topic_partitions_count; i++) {
        const struct topic *topic =
            metadata_topic_by_id(s->r->metadata, &like.topic_partitions[i].topic_id);
        v.owned_partitions[i].topic = slice_of_string(topic->name);
        v.owned_partitions[i].partitions = like.topic_partitions[i].partitions;
        v.owned_partitions[i].partitions_count = 1;
    }
    v.owned_partitions_count = like.topic_partitions_count;
    v.generation_id = number(s, "claimed", -1);
    wbuf_init(&w, 1 << 20);
    cr_assert(eq(
        int, consumer_protocol_subscription_encode(&w, (int16_t)number(s, "sub", 1), &v), ERR_OK));
    return take_bytes(s, &w);
}

static void print_join(struct script *s, struct person *p)
{
    if (p->join == NULL) {
        return;
    }
    if (!p->join->is_answered) {
        fprintf(s->out, "%s: waits for others\n", p->id);
        return;
    }
    const struct join_group_response *out = rig_answer(p->join);
    p->join = NULL;
    if (out->member_id.size > 0) {
        p->real_id = out->member_id;
    }
    if (out->error_code != KAFKA_NONE) {
        fprintf(s->out, "%s: %s\n", p->id, kafka_error_name(out->error_code));
        return;
    }
    p->epoch = out->generation_id;
    const struct slice leader = name_of(s, out->leader);
    fprintf(s->out,
            "%s: generation %d, protocol %.*s, led by \"%.*s\"\n",
            p->id,
            out->generation_id,
            (int)out->protocol_name.size,
            (const char *)out->protocol_name.data,
            (int)leader.size,
            (const char *)leader.data);
}

static void print_sync(struct script *s, struct person *p)
{
    if (p->sync == NULL) {
        return;
    }
    if (!p->sync->is_answered) {
        fprintf(s->out, "%s: waits for the leader\n", p->id);
        return;
    }
    const struct sync_group_response *out = rig_answer(p->sync);
    p->sync = NULL;
    fprintf(s->out, "%s: %s", p->id, kafka_error_name(out->error_code));
    if (out->error_code != KAFKA_NONE) {
        fprintf(s->out, "\n");
        return;
    }
    p->set_count = 0;
    if (out->assignment.size == 0) {
        fprintf(s->out, " no bytes\n");
        return;
    }
    struct consumer_protocol_assignment v;
    struct rbuf in = rbuf_over(out->assignment.data, out->assignment.size);
    cr_assert(eq(int, consumer_protocol_assignment_decode(&in, &s->r->arena, &v), ERR_OK));
    for (size_t i = 0; i < v.assigned_partitions_count; i++) {
        for (size_t j = 0; j < v.assigned_partitions[i].partitions_count; j++) {
            p->set[p->set_count++] = (struct named_partition){
                metadata_topic_by_name(s->r->metadata, v.assigned_partitions[i].topic),
                v.assigned_partitions[i].partitions[j]};
        }
    }
    print_set(s, p->set, p->set_count);
    fprintf(s->out, ", in version %d\n", out->assignment.data[1]);
}

/* Of everybody whose call was answered meanwhile. */
static void print_answered(struct script *s)
{
    for (size_t i = 0; i < s->people_count; i++) {
        struct person *p = &s->people[i];
        if (p->join != NULL && p->join->is_answered) {
            print_join(s, p);
        }
        if (p->sync != NULL && p->sync->is_answered) {
            print_sync(s, p);
        }
    }
}

/* protocols=a,b: all with the same metadata. */
static void
set_protocols(const struct script *s, const struct person *p, struct join_group_request *in)
{
    const char *text = option(s, "protocols");
    char *copy = (char *)(uintptr_t)rig_text(s->r, text == NULL ? "range" : text).data;
    const struct slice metadata =
        option(s, "malformed") != NULL ? slice_of_string("?") : subscription_of(s, p);
    in->protocols = rig_alloc(s->r, WORDS_MAX, sizeof(in->protocols[0]));
    for (char *save = NULL, *name = strtok_r(copy, ",", &save); name != NULL;
         name = strtok_r(NULL, ",", &save)) {
        cr_assert(lt(sz, in->protocols_count, WORDS_MAX));
        in->protocols[in->protocols_count].name = slice_of_string(name);
        in->protocols[in->protocols_count++].metadata = metadata;
    }
}

static void do_cjoin(struct script *s)
{
    struct person *p = person_of(s, s->words[1]);
    struct join_group_request *in = rig_alloc(s->r, 1, sizeof(*in));
    const char *id = option(s, "id");
    const char *type = option(s, "type");
    join_group_request_init(in);
    in->group_id = rig_text(s->r, "g");
    in->session_timeout_ms = number(s, "session", 10000);
    in->rebalance_timeout_ms = number(s, "timeout", 60000);
    in->member_id = id != NULL ? rig_text(s->r, id) : p->real_id;
    in->member_id = slice_is_null(in->member_id) ? slice_of("", 0) : in->member_id;
    in->group_instance_id = rig_text(s->r, option(s, "instance"));
    in->protocol_type = rig_text(s->r, type == NULL ? "consumer" : type);
    set_protocols(s, p, in);
    p->join = rig_send(s->r, GROUP_JOIN, (int16_t)number(s, "api", 3), "g", in);
    if (!p->join->is_answered) {
        print_join(s, p);
    }
    print_answered(s);
}

static void add_assignment(struct script *s, struct sync_group_request *in, char *item)
{
    char *slash = strchr(item, '/');
    char *colon = strchr(item, ':');
    cr_assert(slash != NULL && colon != NULL);
    *slash = '\0';
    *colon = '\0';
    struct consumer_protocol_assignment v;
    struct wbuf w;
    int32_t partition = (int32_t)strtol(colon + 1, NULL, 10);
    struct consumer_protocol_assignment_topic topic = {
        .topic = slice_of_string(slash + 1),
        .partitions = &partition,
        .partitions_count = 1,
    };
    consumer_protocol_assignment_init(&v);
    v.assigned_partitions = &topic;
    v.assigned_partitions_count = 1;
    wbuf_init(&w, 1 << 20);
    cr_assert(eq(int, consumer_protocol_assignment_encode(&w, 1, &v), ERR_OK));
    struct sync_group_request_assignment *to = &in->assignments[in->assignments_count++];
    to->member_id = real_id(s, person_of(s, item));
    to->assignment = take_bytes(s, &w);
}

static void do_csync(struct script *s)
{
    struct person *p = person_of(s, s->words[1]);
    struct sync_group_request *in = rig_alloc(s->r, 1, sizeof(*in));
    sync_group_request_init(in);
    in->group_id = rig_text(s->r, "g");
    in->generation_id = number(s, "epoch", p->epoch);
    in->member_id = real_id(s, p);
    in->group_instance_id = rig_text(s->r, option(s, "instance"));
    in->assignments = rig_alloc(s->r, SET_MAX, sizeof(in->assignments[0]));
    const char *text = option(s, "assign");
    if (text != NULL) {
        char *copy = (char *)(uintptr_t)rig_text(s->r, text).data;
        for (char *save = NULL, *item = strtok_r(copy, ",", &save); item != NULL;
             item = strtok_r(NULL, ",", &save)) {
            add_assignment(s, in, item);
        }
    }
    p->sync = rig_send(s->r, GROUP_SYNC, 3, "g", in);
    if (!p->sync->is_answered) {
        print_sync(s, p);
    }
    print_answered(s);
}

static void do_cbeat(struct script *s)
{
    struct person *p = person_of(s, s->words[1]);
    struct heartbeat_request *in = rig_alloc(s->r, 1, sizeof(*in));
    heartbeat_request_init(in);
    in->group_id = rig_text(s->r, "g");
    in->generation_id = number(s, "epoch", p->epoch);
    in->member_id = real_id(s, p);
    in->group_instance_id = rig_text(s->r, option(s, "instance"));
    const struct heartbeat_response *out = rig_answer(rig_send(s->r, GROUP_HEARTBEAT, 4, "g", in));
    fprintf(s->out, "%s: %s\n", p->id, kafka_error_name(out->error_code));
}

static void do_cleave(struct script *s)
{
    struct leave_group_request *in = rig_alloc(s->r, 1, sizeof(*in));
    leave_group_request_init(in);
    in->group_id = rig_text(s->r, "g");
    in->members = rig_alloc(s->r, s->words_count, sizeof(in->members[0]));
    for (size_t i = 1; i < s->words_count; i++) {
        struct leave_group_request_member *m = &in->members[in->members_count++];
        leave_group_request_member_init(m);
        if (strncmp(s->words[i], "instance=", 9) == 0) {
            m->member_id = slice_of("", 0);
            m->group_instance_id = rig_text(s->r, s->words[i] + 9);
        } else {
            m->member_id = real_id(s, person_of(s, s->words[i]));
        }
    }
    const struct leave_group_response *out = rig_answer(rig_send(s->r, GROUP_LEAVE, 5, "g", in));
    fprintf(s->out, "%s", kafka_error_name(out->error_code));
    for (size_t i = 0; i < out->members_count; i++) {
        fprintf(s->out, ", %s: %s", s->words[i + 1], kafka_error_name(out->members[i].error_code));
    }
    fprintf(s->out, "\n");
    print_answered(s);
}

static void do_migration(struct script *s)
{
    s->r->settings.migration = (enum groups_migration)strtol(s->words[1], NULL, 10);
}

/* ---- commands ---- */

static void do_topic(struct script *s)
{
    rig_topic(s->r, s->words[1], (int32_t)strtol(s->words[2], NULL, 10));
    rig_pass_ms(s->r, 0);
}

static void do_no_topic(struct script *s)
{
    rig_topic_delete(s->r, s->words[1]);
    rig_pass_ms(s->r, 0);
}

static void do_join(struct script *s)
{
    send(s, 0);
    print_answered(s);
}

static void do_beat(struct script *s)
{
    send(s, INT32_MAX);
}

static void do_leave(struct script *s)
{
    send(s, -1);
    print_answered(s);
}

static void do_away(struct script *s)
{
    send(s, -2);
}

static void do_pass(struct script *s)
{
    rig_pass_ms(s->r, (uint64_t)strtol(s->words[1], NULL, 10));
    print_answered(s);
}

static void do_handover(struct script *s)
{
    rig_handover(s->r);
}

static void do_restart(struct script *s)
{
    rig_restart(s->r);
}

static void do_hold(struct script *s)
{
    s->r->is_holding = true;
}

static void print_held(struct script *s)
{
    if (s->held != NULL && s->held->is_answered) {
        print_answer(s, s->held, s->held_of);
        s->held = NULL;
    }
}

static void do_commit(struct script *s)
{
    s->r->is_holding = false;
    rig_commit_all(s->r);
    print_held(s);
}

static void do_fail(struct script *s)
{
    s->r->is_holding = false;
    rig_fail_all(s->r, ERR_NO_SPACE);
    print_held(s);
}

static void do_members_max(struct script *s)
{
    s->r->settings.consumer_members_max = (int32_t)strtol(s->words[1], NULL, 10);
}

/* Groups have no memory left; "not-full": plenty again. */
static void do_full(struct script *s)
{
    s->r->leader->memory.size_max = s->r->leader->memory.size;
}

static void do_not_full(struct script *s)
{
    s->r->leader->memory.size_max = SIZE_MAX;
}

static const struct {
    const char *name;
    size_t words_count;
    void (*run)(struct script *s);
} COMMANDS[] = {
    {"topic", 3, do_topic},
    {"no-topic", 2, do_no_topic},
    {"join", 2, do_join},
    {"beat", 2, do_beat},
    {"leave", 2, do_leave},
    {"away", 2, do_away},
    {"pass", 2, do_pass},
    {"describe", 1, describe},
    {"records", 1, records},
    {"handover", 1, do_handover},
    {"restart", 1, do_restart},
    {"hold", 1, do_hold},
    {"commit", 1, do_commit},
    {"fail", 1, do_fail},
    {"members-max", 2, do_members_max},
    {"migration", 2, do_migration},
    {"full", 1, do_full},
    {"not-full", 1, do_not_full},
    {"cjoin", 2, do_cjoin},
    {"csync", 2, do_csync},
    {"cbeat", 2, do_cbeat},
    {"cleave", 2, do_cleave},
};

static void run_line(struct script *s, const char *line)
{
    char copy[LINE_SIZE_MAX];
    (void)snprintf(copy, sizeof(copy), "%s", line);
    s->words_count = 0;
    for (char *save = NULL, *word = strtok_r(copy, " ", &save);
         word != NULL && s->words_count < WORDS_MAX;
         word = strtok_r(NULL, " ", &save)) {
        s->words[s->words_count++] = word;
    }
    for (size_t i = 0; i < sizeof(COMMANDS) / sizeof(COMMANDS[0]); i++) {
        if (s->words_count > 0 && strcmp(COMMANDS[i].name, s->words[0]) == 0) {
            cr_assert(le(sz, COMMANDS[i].words_count, s->words_count), "%s", line);
            COMMANDS[i].run(s);
            return;
        }
    }
    cr_fatal("no such command: %s", line);
}

void consumer_script_run(const char *text, FILE *out)
{
    struct script *s = calloc(1, sizeof(*s));
    cr_assert(s != NULL);
    s->r = rig_new();
    s->out = out;
    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");
        char line[LINE_SIZE_MAX];
        cr_assert(lt(sz, size, sizeof(line)));
        memcpy(line, text, size);
        line[size] = '\0';
        text += size + (text[size] == '\n');
        if (line[0] == '#' || line[0] == '\0') {
            fprintf(out, "%s\n", line);
        } else if (line[0] == '>') {
            fprintf(out, "%s\n", line);
            run_line(s, line + 2);
        }
    }
    rig_free(s->r);
    free(s);
}
