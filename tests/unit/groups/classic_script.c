#include "tests/unit/groups/classic_script.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "groups/classic.h"
#include "groups/group.h"
#include "kafka/proto/describe_groups.h"
#include "kafka/proto/heartbeat.h"
#include "kafka/proto/join_group.h"
#include "kafka/proto/leave_group.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/sync_group.h"

enum {
    NAMES_MAX = 64,
    WORDS_MAX = 16,
    LINE_MAX = 1024,
    TEXT_MAX = 4096,
    PARTS_MAX = 16,
};

struct name {
    char text[32];
    struct slice id;
    int32_t generation;
};

struct asked {
    struct rig_call *call;
    struct name *name;
    bool is_told;
};

struct play {
    struct rig *r;
    struct name names[NAMES_MAX];
    size_t names_count;
    struct asked asked[NAMES_MAX * 4];
    size_t asked_count;
    char *words[WORDS_MAX]; /* Of the line; the first is the verb. */
    size_t words_count;
    char out[TEXT_MAX];
    size_t out_size;
};

/* ---- words ---- */

[[gnu::format(printf, 2, 3)]] static void say(struct play *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(p->out + p->out_size, TEXT_MAX - p->out_size, format, args);
    va_end(args);
    cr_assert(n >= 0 && (size_t)n < TEXT_MAX - p->out_size);
    p->out_size += (size_t)n;
}

static const char *option(const struct play *p, const char *key, const char *otherwise)
{
    const size_t size = strlen(key);
    for (size_t i = 1; i < p->words_count; i++) {
        if (strncmp(p->words[i], key, size) == 0 && p->words[i][size] == '=') {
            return p->words[i] + size + 1;
        }
    }
    return otherwise;
}

static int32_t number(const struct play *p, const char *key, int32_t otherwise)
{
    const char *text = option(p, key, NULL);
    return text == NULL ? otherwise : (int32_t)strtol(text, NULL, 10);
}

static struct name *name_of(struct play *p, const char *text)
{
    for (size_t i = 0; i < p->names_count; i++) {
        if (strcmp(p->names[i].text, text) == 0) {
            return &p->names[i];
        }
    }
    cr_assert(lt(sz, p->names_count, NAMES_MAX));
    struct name *n = &p->names[p->names_count++];
    (void)snprintf(n->text, sizeof(n->text), "%s", text);
    n->id = slice_of("", 0);
    n->generation = -1;
    return n;
}

/* 'text', none, or a name. */
static struct slice id_of(struct play *p, const char *text)
{
    if (text[0] == '\'') {
        struct slice id = rig_text(p->r, text + 1);
        id.size -= 1;
        return id;
    }
    return strcmp(text, "none") == 0 ? slice_of("", 0) : name_of(p, text)->id;
}

/* "a:b;c:d" in parts. */
struct part {
    char *key;
    char *value;
};
static size_t split(struct play *p, const char *text, struct part *ret_parts)
{
    size_t count = 0;
    char *copy = rig_alloc(p->r, strlen(text) + 1, 1);
    memcpy(copy, text, strlen(text));
    char *rest = NULL;
    for (char *at = strtok_r(copy, ";", &rest); at != NULL; at = strtok_r(NULL, ";", &rest)) {
        char *colon = strchr(at, ':');
        cr_assert(lt(sz, count, PARTS_MAX));
        ret_parts[count].key = at;
        ret_parts[count].value = colon == NULL ? at + strlen(at) : colon + 1;
        count++;
        if (colon != NULL) {
            *colon = '\0';
        }
    }
    return count;
}

static void say_id(struct play *p, struct slice id)
{
    for (size_t i = p->names_count; i > 0; i--) {
        if (id.size > 0 && slice_equal(p->names[i - 1].id, id)) {
            say(p, "%s", p->names[i - 1].text);
            return;
        }
    }
    say(p, "%.*s", id.size == 0 ? 4 : (int)id.size, id.size == 0 ? "none" : (const char *)id.data);
}

/* ---- what came ---- */

static const char *error_text(int16_t e)
{
    return e == KAFKA_NONE ? "ok" : kafka_error_name(e);
}

static void say_slice(struct play *p, const char *key, struct slice text)
{
    say(p,
        " %s=%.*s",
        key,
        slice_is_null(text) ? 4 : (int)text.size,
        slice_is_null(text) ? "null" : (const char *)text.data);
}

static void tell_join(struct play *p, const struct join_group_response *out)
{
    if (out->error_code != KAFKA_NONE) {
        say(p, "%s", error_text(out->error_code));
        cr_assert(eq(i32, out->generation_id, -1));
        cr_assert(eq(sz, out->members_count, 0));
        return;
    }
    say(p, "generation=%d", out->generation_id);
    say_slice(p, "protocol", out->protocol_name);
    say(p, " leader=");
    say_id(p, out->leader);
    for (size_t i = 0; i < out->members_count; i++) {
        const struct join_group_response_member *m = &out->members[i];
        say(p, i == 0 ? " members=" : ",");
        say_id(p, m->member_id);
        say(p, "(%.*s)", (int)m->metadata.size, (const char *)m->metadata.data);
    }
    say(p, "%s", out->skip_assignment ? " skip" : "");
}

static void tell_leave(struct play *p, const struct leave_group_response *out)
{
    say(p, "%s", error_text(out->error_code));
    for (size_t i = 0; i < out->members_count; i++) {
        say(p, " %s", error_text(out->members[i].error_code));
    }
}

static void tell_describe(struct play *p, const struct describe_groups_response_group *out)
{
    say(p,
        "%s %.*s",
        error_text(out->error_code),
        (int)out->group_state.size,
        (const char *)out->group_state.data);
    say_slice(p, "type", out->protocol_type);
    say_slice(p, "protocol", out->protocol_data);
    for (size_t i = 0; i < out->members_count; i++) {
        const struct describe_groups_response_member *m = &out->members[i];
        say(p, " ");
        say_id(p, m->member_id);
        say(p,
            "(%.*s)(%.*s)",
            (int)m->member_metadata.size,
            (const char *)m->member_metadata.data,
            (int)m->member_assignment.size,
            (const char *)m->member_assignment.data);
    }
}

static void tell_answer(struct play *p, const struct asked *a)
{
    const struct group_call *call = &a->call->call;
    const void *out = rig_answer(a->call);
    if (call->kind == GROUP_JOIN) {
        say(p, "%s join ", a->name->text);
        tell_join(p, out);
    } else if (call->kind == GROUP_SYNC) {
        const struct sync_group_response *sync = out;
        say(p, "%s sync %s", a->name->text, error_text(sync->error_code));
        if (sync->error_code == KAFKA_NONE) {
            say_slice(p, "assignment", sync->assignment);
        }
    } else if (call->kind == GROUP_HEARTBEAT) {
        const struct heartbeat_response *heartbeat = out;
        say(p, "%s %s", a->name->text, error_text(heartbeat->error_code));
    } else if (call->kind == GROUP_LEAVE) {
        say(p, "%s leave ", a->name->text);
        tell_leave(p, out);
    } else {
        tell_describe(p, out);
    }
}

/* Ids first: a leader is told of members whose answers stand behind its own. */
static void learn(const struct asked *a)
{
    if (a->call->call.kind == GROUP_JOIN) {
        const struct join_group_response *out = rig_answer(a->call);
        const bool is_named = out->error_code == KAFKA_MEMBER_ID_REQUIRED;
        if (out->error_code == KAFKA_NONE || is_named) {
            a->name->id = out->member_id;
            a->name->generation = is_named ? -1 : out->generation_id;
        }
    }
}

static void tell(struct play *p)
{
    for (size_t i = 0; i < p->asked_count; i++) {
        if (p->asked[i].call->is_answered && !p->asked[i].is_told) {
            learn(&p->asked[i]);
        }
    }
    for (size_t i = 0; i < p->asked_count; i++) {
        struct asked *a = &p->asked[i];
        if (a->call->is_answered && !a->is_told) {
            a->is_told = true;
            say(p, "%s", p->out_size == 0 ? "" : " | ");
            tell_answer(p, a);
        }
    }
}

static void ask(struct play *p, struct name *n, enum group_call_kind kind, const void *in)
{
    static const int16_t VERSIONS[GROUP_CALL_KIND_COUNT] = {
        [GROUP_JOIN] = JOIN_GROUP_VERSION_MAX,
        [GROUP_SYNC] = SYNC_GROUP_VERSION_MAX,
        [GROUP_HEARTBEAT] = HEARTBEAT_VERSION_MAX,
        [GROUP_LEAVE] = LEAVE_GROUP_VERSION_MAX,
        [GROUP_DESCRIBE] = DESCRIBE_GROUPS_VERSION_MAX,
    };
    const int16_t version = (int16_t)number(p, "v", VERSIONS[kind]);
    struct rig_call *call = rig_call_new(p->r, kind, version, "g", in);
    call->call.client_id = rig_text(p->r, n->text);
    cr_assert(lt(sz, p->asked_count, NAMES_MAX * 4));
    p->asked[p->asked_count++] = (struct asked){.call = call, .name = n};
    rig_start(call);
}

/* ---- events ---- */

static const char *word(const struct play *p)
{
    cr_assert(lt(sz, 1, p->words_count));
    return p->words[1];
}

static struct slice instance_of(struct play *p)
{
    return rig_text(p->r, option(p, "as", NULL));
}

static void do_join(struct play *p)
{
    struct name *n = name_of(p, word(p));
    struct join_group_request *in = rig_alloc(p->r, 1, sizeof(*in));
    struct part parts[PARTS_MAX] = {{0}};
    join_group_request_init(in);
    in->session_timeout_ms = number(p, "session", 10000);
    in->rebalance_timeout_ms = number(p, "rebalance", 60000);
    in->member_id = id_of(p, option(p, "id", n->text));
    in->group_instance_id = instance_of(p);
    in->protocol_type = rig_text(p->r, option(p, "type", "consumer"));
    in->protocols_count = split(p, option(p, "protocols", "range:m"), parts);
    in->protocols = rig_alloc(p->r, PARTS_MAX, sizeof(*in->protocols));
    for (size_t i = 0; i < in->protocols_count; i++) {
        in->protocols[i].name = rig_text(p->r, parts[i].key);
        in->protocols[i].metadata = rig_text(p->r, parts[i].value);
    }
    ask(p, n, GROUP_JOIN, in);
}

static void do_sync(struct play *p)
{
    struct name *n = name_of(p, word(p));
    struct sync_group_request *in = rig_alloc(p->r, 1, sizeof(*in));
    struct part parts[PARTS_MAX] = {{0}};
    sync_group_request_init(in);
    in->generation_id = number(p, "gen", n->generation);
    in->member_id = id_of(p, option(p, "id", n->text));
    in->group_instance_id = instance_of(p);
    if (number(p, "v", SYNC_GROUP_VERSION_MAX) >= 5) {
        const char *type = option(p, "type", "consumer");
        const char *protocol = option(p, "protocol", "range");
        in->protocol_type = rig_text(p->r, strcmp(type, "null") == 0 ? NULL : type);
        in->protocol_name = rig_text(p->r, strcmp(protocol, "null") == 0 ? NULL : protocol);
    }
    in->assignments_count = split(p, option(p, "give", ""), parts);
    in->assignments = rig_alloc(p->r, PARTS_MAX, sizeof(*in->assignments));
    for (size_t i = 0; i < in->assignments_count; i++) {
        in->assignments[i].member_id = id_of(p, parts[i].key);
        in->assignments[i].assignment = rig_text(p->r, parts[i].value);
    }
    ask(p, n, GROUP_SYNC, in);
}

static void do_heartbeat(struct play *p)
{
    struct name *n = name_of(p, word(p));
    struct heartbeat_request *in = rig_alloc(p->r, 1, sizeof(*in));
    heartbeat_request_init(in);
    in->generation_id = number(p, "gen", n->generation);
    in->member_id = id_of(p, option(p, "id", n->text));
    in->group_instance_id = instance_of(p);
    ask(p, n, GROUP_HEARTBEAT, in);
}

static void do_leave(struct play *p)
{
    struct leave_group_request *in = rig_alloc(p->r, 1, sizeof(*in));
    struct part parts[PARTS_MAX] = {{0}};
    leave_group_request_init(in);
    const size_t count = split(p, word(p), parts);
    if (number(p, "v", LEAVE_GROUP_VERSION_MAX) < 3) {
        in->member_id = id_of(p, parts[0].key);
    } else {
        in->members_count = count;
        in->members = rig_alloc(p->r, PARTS_MAX, sizeof(*in->members));
        for (size_t i = 0; i < count; i++) {
            in->members[i].member_id = id_of(p, parts[i].key);
            in->members[i].group_instance_id = instance_of(p);
        }
    }
    ask(p, name_of(p, parts[0].key), GROUP_LEAVE, in);
}

/* The check alone: what is committed is the affair of offsets. */
static void do_offsets(struct play *p)
{
    const struct name *n = name_of(p, word(p));
    struct offset_commit_request in;
    offset_commit_request_init(&in);
    in.generation_id_or_member_epoch = number(p, "gen", n->generation);
    in.member_id = id_of(p, option(p, "id", n->text));
    in.group_instance_id = instance_of(p);
    struct coordinator *c = p->r->leader->c;
    c->time = p->r->now;
    struct group *g = group_get(c, slice_of("g", 1));
    const int16_t version = (int16_t)number(p, "v", OFFSET_COMMIT_VERSION_MAX);
    const enum kafka_error e = classic_check_commit(g, &in, version);
    say(p, "%s", error_text((int16_t)e));
    group_drop_unused(g);
}

static void do_describe(struct play *p)
{
    ask(p, name_of(p, "g"), GROUP_DESCRIBE, NULL);
}

static void do_pass(struct play *p)
{
    rig_pass_ms(p->r, (uint64_t)strtoul(word(p), NULL, 10));
}

/* The newest call under that name. */
static void do_cancel(struct play *p)
{
    const struct name *n = name_of(p, word(p));
    for (size_t i = p->asked_count; i > 0; i--) {
        if (p->asked[i - 1].name == n) {
            p->asked[i - 1].is_told = true;
            rig_cancel(p->asked[i - 1].call);
            return;
        }
    }
}

static void do_fail(struct play *p)
{
    for (int e = 0; e < ERR_COUNT; e++) {
        if (strcmp(err_name((enum err)e), word(p)) == 0) {
            rig_fail_all(p->r, (enum err)e);
            return;
        }
    }
    cr_fatal("no such error: %s", word(p));
}

static void do_hold(struct play *p)
{
    p->r->is_holding = true;
}

static void do_release(struct play *p)
{
    p->r->is_holding = false;
    rig_commit_all(p->r);
}

static void do_write(struct play *p)
{
    rig_commit_all(p->r);
}

static void do_full(struct play *p)
{
    p->r->leader->memory.size_max = p->r->leader->memory.size;
}

/* Offsets of it go, in a batch that is under way while batches are held. */
static void do_no_topic(struct play *p)
{
    rig_topic_delete(p->r, word(p));
    rig_pass_ms(p->r, 1);
}

static void do_restart(struct play *p)
{
    rig_restart(p->r);
}

static void do_handover(struct play *p)
{
    rig_handover(p->r);
}

static void do_resign(struct play *p)
{
    rig_resign(p->r);
}

static const struct {
    const char *verb;
    void (*run)(struct play *p);
} EVENTS[] = {
    {"join", do_join},
    {"sync", do_sync},
    {"heartbeat", do_heartbeat},
    {"leave", do_leave},
    {"offsets", do_offsets},
    {"describe", do_describe},
    {"pass", do_pass},
    {"cancel", do_cancel},
    {"fail", do_fail},
    {"hold", do_hold},
    {"release", do_release},
    {"write", do_write},
    {"full", do_full},
    {"no-topic", do_no_topic},
    {"restart", do_restart},
    {"handover", do_handover},
    {"resign", do_resign},
};

/* ---- lines ---- */

static void run_event(struct play *p)
{
    for (size_t i = 0; i < sizeof(EVENTS) / sizeof(EVENTS[0]); i++) {
        if (strcmp(EVENTS[i].verb, p->words[0]) == 0) {
            EVENTS[i].run(p);
            return;
        }
    }
    cr_fatal("no such event: %s", p->words[0]);
}

static void play_line(struct play *p, const char *line)
{
    char copy[LINE_MAX];
    (void)snprintf(copy, sizeof(copy), "%s", line);
    char *expected = strstr(copy, " => ");
    if (expected != NULL) {
        *expected = '\0';
        expected += strlen(" => ");
    }
    p->words_count = 0;
    p->out_size = 0;
    p->out[0] = '\0';
    char *rest = NULL;
    for (char *at = strtok_r(copy, " ", &rest); at != NULL; at = strtok_r(NULL, " ", &rest)) {
        cr_assert(lt(sz, p->words_count, WORDS_MAX));
        p->words[p->words_count++] = at;
    }
    if (p->words_count == 0) {
        return;
    }
    run_event(p);
    tell(p);
    if (p->out_size == 0) {
        say(p, "-");
    }
    const char *wanted = expected == NULL ? "-" : expected;
    cr_assert(
        strcmp(wanted, p->out) == 0, "%s\n   wanted: %s\n   came:   %s", line, wanted, p->out);
}

void play(struct rig *r, const char *script)
{
    struct play *p = rig_alloc(r, 1, sizeof(*p));
    p->r = r;
    char *copy = rig_alloc(r, strlen(script) + 1, 1);
    memcpy(copy, script, strlen(script));
    char *rest = NULL;
    for (char *line = strtok_r(copy, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        play_line(p, line);
    }
}
