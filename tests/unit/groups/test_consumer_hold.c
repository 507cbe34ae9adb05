/* Heartbeats that wait for news: when they are answered, and with what. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#include "kafka/proto/consumer_group_heartbeat.h"

#include "tests/unit/groups/rig.h"

typedef struct consumer_group_heartbeat_request request;
typedef struct consumer_group_heartbeat_response response;

enum {
    VERSION = 1,
    INTERVAL_MS = 5000,
    SOON_MS = 500,
    SOON_MS_IMPATIENT = 1000,
    TIMEOUT_MS = 60000,
};

static struct rig *new_rig(void)
{
    struct rig *r = rig_new();
    r->settings.is_heartbeat_held = true;
    rig_topic(r, "t", 4);
    return r;
}

static request *new_request(struct rig *r, const char *member, int32_t epoch)
{
    request *in = rig_alloc(r, 1, sizeof(*in));
    consumer_group_heartbeat_request_init(in);
    in->group_id = rig_text(r, "g");
    in->member_id = rig_text(r, member);
    in->member_epoch = epoch;
    in->subscribed_topic_names = NULL;
    in->topic_partitions = NULL;
    return in;
}

static struct rig_call *send(struct rig *r, const request *in)
{
    return rig_send(r, GROUP_CONSUMER_HEARTBEAT, VERSION, "g", in);
}

static struct rig_call *beat(struct rig *r, const char *member, int32_t epoch)
{
    return send(r, new_request(r, member, epoch));
}

/* What clients say when they have taken over what they were told. */
static struct rig_call *acknowledge(struct rig *r, const char *member, const response *told)
{
    request *in = new_request(r, member, told->member_epoch);
    const size_t count = told->assignment == NULL ? 0 : told->assignment->topic_partitions_count;
    struct consumer_group_heartbeat_request_topic_partition *owned =
        rig_alloc(r, count + 1, sizeof(*owned));
    for (size_t i = 0; i < count; i++) {
        consumer_group_heartbeat_request_topic_partition_init(&owned[i]);
        owned[i].topic_id = told->assignment->topic_partitions[i].topic_id;
        owned[i].partitions = told->assignment->topic_partitions[i].partitions;
        owned[i].partitions_count = told->assignment->topic_partitions[i].partitions_count;
    }
    in->topic_partitions = owned;
    in->topic_partitions_count = count;
    return send(r, in);
}

/* All there is to say, of one that has nothing. */
static const response *say_all(struct rig *r, const char *member, int32_t epoch)
{
    static struct slice names[] = {{(const uint8_t *)"t", 1}};
    static struct consumer_group_heartbeat_request_topic_partition nothing[1];
    request *in = new_request(r, member, epoch);
    in->rebalance_timeout_ms = TIMEOUT_MS;
    in->subscribed_topic_names = names;
    in->subscribed_topic_names_count = 1;
    in->topic_partitions = nothing;
    return rig_answer(send(r, in));
}

static const response *join_only(struct rig *r, const char *member)
{
    return say_all(r, member, 0);
}

static const response *join(struct rig *r, const char *member)
{
    const response *out = join_only(r, member);
    rig_cancel(acknowledge(r, member, out));
    return out;
}

Test(consumer_hold, answered_when_the_next_is_due)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    struct rig_call *call = beat(r, "a", epoch);
    cr_assert(not(call->is_answered));
    rig_pass_ms(r, INTERVAL_MS - SOON_MS - 1);
    cr_assert(not(call->is_answered));
    rig_pass_ms(r, 1);
    const response *out = rig_answer(call);
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(i32, out->member_epoch, epoch));
    cr_assert(eq(i32, out->heartbeat_interval_ms, SOON_MS), "the same as ever: no pause in Java");
    cr_assert(eq(ptr, out->assignment, NULL));
    rig_free(r);
}

static struct rig_call *beat_impatient(struct rig *r, const char *member, int32_t epoch)
{
    struct rig_call *call =
        rig_call_new(r, GROUP_CONSUMER_HEARTBEAT, VERSION, "g", new_request(r, member, epoch));
    call->call.is_impatient = true;
    rig_start(call);
    return call;
}

/* Its client would give it up, and the connection with it. */
Test(consumer_hold, of_the_impatient_is_answered_before_they_give_it_up)
{
    struct rig *r = new_rig();
    const int32_t epoch = join_only(r, "a")->member_epoch;
    for (int i = 0; i < 2; i++) {
        const struct rig_call *call = beat_impatient(r, "a", epoch);
        rig_pass_ms(r, (uint64_t)(i == 0 ? SOON_MS : SOON_MS_IMPATIENT) / 2 - 1);
        cr_assert(not(call->is_answered));
        rig_pass_ms(r, 1);
        const response *out = rig_answer(call);
        cr_assert(eq(i32, out->heartbeat_interval_ms, SOON_MS_IMPATIENT), "it is kept again");
    }
    rig_handover(r);
    cr_assert(beat_impatient(r, "a", epoch)->is_answered, "who knows what it was told");
    cr_assert(not(beat_impatient(r, "a", epoch)->is_answered));
    rig_free(r);
}

/* It has heard of a shorter interval than it was told, or why is it gone? Kept for as long as
 * before the next ones would be given up, too, for ever. */
Test(consumer_hold, of_the_impatient_none_is_kept_after_one_that_may_have_been_given_up)
{
    struct rig *r = new_rig();
    const int32_t epoch = join_only(r, "a")->member_epoch;
    struct rig_call *call = beat_impatient(r, "a", epoch);
    cr_assert(not(call->is_answered));
    rig_cancel(call);
    (void)rig_answer(call);
    cr_assert(beat_impatient(r, "a", epoch)->is_answered);
    call = beat_impatient(r, "a", epoch);
    cr_assert(not(call->is_answered), "that it has heard");
    (void)beat_impatient(r, "a", epoch);
    cr_assert(call->is_answered, "nobody is there to hear it");
    cr_assert(beat_impatient(r, "a", epoch)->is_answered);
    rig_free(r);
}

/* Java with request.timeout.ms below what heartbeats of its kind are kept for: else it lost its
 * connection with every one. A client that only sends more is not meant. */
Test(consumer_hold, who_gave_one_up_is_impatient)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_cancel(beat(r, "a", epoch));
    struct rig_call *call = beat(r, "a", epoch);
    rig_pass_ms(r, INTERVAL_MS - SOON_MS - 1);
    cr_assert(not(call->is_answered), "it is patient");
    call->call.is_client_gone = true;
    rig_cancel(call);
    const response *out = rig_answer(beat(r, "a", epoch));
    const int32_t told_ms = out->heartbeat_interval_ms;
    call = beat(r, "a", epoch);
    rig_pass_ms(r, (uint64_t)told_ms / 2 - 1);
    cr_assert(not(call->is_answered));
    rig_pass_ms(r, 1);
    cr_assert(call->is_answered);
    rig_free(r);
}

/* Connections also end for other reasons: it is patient again when it has waited some times. Each
 * time that it gives one up it has to wait more often. */
Test(consumer_hold, who_has_waited_often_enough_is_patient_again)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    for (int i = 0, before = 0; i < 3; i++) {
        struct rig_call *call = beat(r, "a", epoch);
        cr_assert(not(call->is_answered));
        call->call.is_client_gone = true;
        rig_cancel(call);
        (void)rig_answer(beat(r, "a", epoch)); /* Who knows what it was told. */
        int count = 0;
        for (bool is_patient = false; !is_patient; count++) {
            call = beat(r, "a", epoch);
            rig_pass_ms(r, INTERVAL_MS / 2);
            is_patient = !call->is_answered;
            rig_pass_ms(r, INTERVAL_MS);
            cr_assert(call->is_answered);
            cr_assert(lt(int, count, 100));
        }
        cr_assert(lt(int, before + 3, count), "%d, %d", before, count);
        before = count;
    }
    rig_free(r);
}

/* It is told to come often while others give back: that is its time limit, too. */
Test(consumer_hold, of_the_impatient_none_is_kept_while_something_moves)
{
    struct rig *r = new_rig();
    (void)join(r, "a");
    rig_pass_ms(r, 2000);
    const response *joined = join_only(r, "b");
    cr_assert(eq(sz, joined->assignment->topic_partitions_count, 0), "a has all of it");
    rig_cancel(acknowledge(r, "b", joined));
    cr_assert(beat_impatient(r, "b", joined->member_epoch)->is_answered);
    cr_assert(not(beat(r, "b", joined->member_epoch)->is_answered), "the others' is");
    rig_free(r);
}

/* franz-go reads for ten seconds at most, whatever it was told. */
Test(consumer_hold, no_longer_than_clients_read_for)
{
    struct rig *r = new_rig();
    r->intervals.heartbeat_interval_ms = 15000;
    const int32_t epoch = join(r, "a")->member_epoch;
    const struct rig_call *call = beat(r, "a", epoch);
    rig_pass_ms(r, 7999);
    cr_assert(not(call->is_answered));
    rig_pass_ms(r, 1);
    cr_assert(call->is_answered);
    rig_free(r);
}

/* Who waits for what others give back hears of it at once. */
Test(consumer_hold, answered_when_others_have_given_back)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000);
    struct rig_call *call = beat(r, "a", epoch);
    const response *joined = join_only(r, "b");
    cr_assert(eq(sz, joined->assignment->topic_partitions_count, 0), "a has all of it");
    const struct rig_call *waiting = acknowledge(r, "b", joined);
    const response *reduced = rig_answer(call);
    cr_assert(not(waiting->is_answered));
    cr_assert(beat(r, "a", epoch)->is_answered, "who is to give back is not kept");
    (void)rig_answer(acknowledge(r, "a", reduced));
    rig_pass_ms(r, 0);
    const response *out = rig_answer(waiting);
    cr_assert(eq(i32, out->member_epoch, joined->member_epoch));
    cr_assert(eq(sz, out->assignment->topic_partitions[0].partitions_count, 2));
    cr_assert(not(acknowledge(r, "b", out)->is_answered), "it is settled");
    rig_free(r);
}

/* Also of who gave nothing back, and is gone. */
Test(consumer_hold, answered_when_another_is_thrown_out)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000);
    (void)beat(r, "a", epoch);
    const response *joined = join_only(r, "b");
    const struct rig_call *waiting = acknowledge(r, "b", joined);
    (void)rig_answer(beat(r, "a", -1));
    rig_pass_ms(r, 2000);
    const response *out = rig_answer(waiting);
    cr_assert(eq(sz, out->assignment->topic_partitions[0].partitions_count, 4));
    rig_free(r);
}

Test(consumer_hold, news_are_told_at_once)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000); /* The next target may be computed. */
    struct rig_call *call = beat(r, "a", epoch);
    (void)join(r, "b");
    const response *out = rig_answer(call);
    cr_assert(eq(i32, out->member_epoch, epoch), "it has to give back first");
    cr_assert(ne(ptr, out->assignment, NULL));
    cr_assert(eq(sz, out->assignment->topic_partitions[0].partitions_count, 2));
    cr_assert(lt(i32, out->heartbeat_interval_ms, INTERVAL_MS));
    rig_free(r);
}

/* Its client has something else to say on that connection, or is gone. */
Test(consumer_hold, cancelled_is_answered_with_what_there_is)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    struct rig_call *call = beat(r, "a", epoch);
    rig_pass_ms(r, 2000);
    rig_cancel(call);
    const response *out = rig_answer(call);
    cr_assert(eq(i16, out->error_code, KAFKA_NONE));
    cr_assert(eq(i32, out->member_epoch, epoch));
    cr_assert(eq(i32, out->heartbeat_interval_ms, SOON_MS), "to wait again");
    rig_free(r);
}

/* Only who waits hears at once: whose heartbeat could not be kept is to come again soon. */
Test(consumer_hold, who_could_not_wait_comes_back_soon)
{
    struct rig *r = new_rig();
    const response *out = join(r, "a");
    cr_assert(eq(i32, out->heartbeat_interval_ms, SOON_MS), "it was told its partitions");
    r->settings.is_heartbeat_held = false;
    out = rig_answer(beat(r, "a", out->member_epoch));
    cr_assert(eq(i32, out->heartbeat_interval_ms, INTERVAL_MS), "none is kept");
    rig_free(r);
}

/* Members that share a connection hurry each other: they come as if none were kept. */
Test(consumer_hold, who_can_hardly_wait_comes_back_later_each_time)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    int32_t ms = 0;
    for (int i = 0; i < 5; i++) {
        struct rig_call *call = beat(r, "a", epoch);
        rig_pass_ms(r, 100);
        rig_cancel(call);
        const int32_t next_ms = ((const response *)rig_answer(call))->heartbeat_interval_ms;
        cr_assert(le(i32, ms, next_ms));
        ms = next_ms;
    }
    cr_assert(eq(i32, ms, INTERVAL_MS));
    struct rig_call *call = beat(r, "a", epoch);
    rig_pass_ms(r, 1000);
    rig_cancel(call);
    cr_assert(eq(i32, ((const response *)rig_answer(call))->heartbeat_interval_ms, SOON_MS));
    rig_free(r);
}

Test(consumer_hold, the_more_members_the_later_they_come_back)
{
    enum {
        MEMBERS = 4000,
    };
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    r->leader->memory.members_count += MEMBERS - 1;
    struct rig_call *call = beat(r, "a", epoch);
    rig_pass_ms(r, 1000);
    rig_cancel(call);
    cr_assert(eq(i32, ((const response *)rig_answer(call))->heartbeat_interval_ms, MEMBERS / 5));
    r->leader->memory.members_count -= MEMBERS - 1;
    rig_free(r);
}

/* A session counts from when a heartbeat came, not from when it was answered. */
Test(consumer_hold, does_not_lengthen_the_session)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    (void)beat(r, "a", epoch);
    rig_pass_ms(r, 44999);
    cr_assert(eq(i16,
                 ((const response *)rig_answer(beat(r, "a", epoch + 9)))->error_code,
                 KAFKA_FENCED_MEMBER_EPOCH));
    rig_pass_ms(r, 1);
    cr_assert(eq(i16,
                 ((const response *)rig_answer(beat(r, "a", epoch)))->error_code,
                 KAFKA_UNKNOWN_MEMBER_ID));
    rig_free(r);
}

/* Who has more to say while its heartbeat waits for its turn has said that it is there, too. */
Test(consumer_hold, hurried_at_the_gate_counts_for_the_session)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 20000);
    request *in = new_request(r, "b", 0);
    in->rebalance_timeout_ms = TIMEOUT_MS;
    in->subscribed_topic_names = rig_alloc(r, 1, sizeof(struct slice));
    in->topic_partitions = rig_alloc(r, 1, sizeof(*in->topic_partitions));
    r->is_holding = true;
    (void)send(r, in);
    struct rig_call *call = beat(r, "a", epoch);
    rig_cancel(call);
    cr_assert(not(call->is_answered), "it waits for its turn");
    r->is_holding = false;
    rig_commit_all(r);
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_NONE));
    rig_pass_ms(r, 44000);
    const response *out = rig_answer(beat(r, "a", epoch + 9));
    cr_assert(eq(i16, out->error_code, KAFKA_FENCED_MEMBER_EPOCH), "it is still a member");
    rig_free(r);
}

Test(consumer_hold, one_per_member)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    struct rig_call *first = beat(r, "a", epoch);
    struct rig_call *second = beat(r, "a", epoch);
    cr_assert(first->is_answered);
    cr_assert(not(second->is_answered));
    rig_free(r);
}

static const response *answer_in_time(struct rig *r, struct rig_call *call)
{
    cr_assert(not(call->is_answered), "it waits for news");
    rig_pass_ms(r, INTERVAL_MS - SOON_MS);
    return rig_answer(call);
}

/* Its answer may be lost: what a member may use is told until it says that it has it. */
Test(consumer_hold, told_again_until_heard)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000);
    struct rig_call *call = beat(r, "a", epoch);
    const int32_t joined = join(r, "b")->member_epoch;
    (void)rig_answer(acknowledge(r, "a", rig_answer(call)));
    const response *out = rig_answer(beat(r, "b", joined));
    cr_assert(eq(i32, out->member_epoch, joined));
    cr_assert(ne(ptr, out->assignment, NULL), "what a gave back");
    for (int i = 0; i < 2; i++) {
        out = answer_in_time(r, beat(r, "b", joined));
        cr_assert(ne(ptr, out->assignment, NULL), "%d", i);
    }
    out = answer_in_time(r, acknowledge(r, "b", out));
    cr_assert(eq(ptr, out->assignment, NULL), "now it is known");
    rig_free(r);
}

/* A late request says that it has nothing, which it had then; now it has all that it is told, and
 * will not say so again. */
Test(consumer_hold, told_in_vain_it_waits_for_news)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    cr_assert(ne(ptr, say_all(r, "a", epoch)->assignment, NULL));
    const response *out = answer_in_time(r, beat(r, "a", epoch));
    cr_assert(ne(ptr, out->assignment, NULL));
    rig_free(r);
}

/* The same for what it is to give back. */
Test(consumer_hold, told_again_until_given_back)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000);
    (void)join(r, "b");
    for (int i = 0; i < 3; i++) {
        const response *out = rig_answer(beat(r, "a", epoch));
        cr_assert(ne(ptr, out->assignment, NULL));
        cr_assert(eq(sz, out->assignment->topic_partitions[0].partitions_count, 2));
    }
    rig_free(r);
}

Test(consumer_hold, an_epoch_whose_answer_was_lost_is_told_again)
{
    struct rig *r = new_rig();
    const response *a = join(r, "a");
    rig_pass_ms(r, 2000);
    struct rig_call *call = beat(r, "a", a->member_epoch);
    const int32_t joined = join(r, "b")->member_epoch;
    const response *reduced = rig_answer(call);
    const response *lost = rig_answer(acknowledge(r, "a", reduced));
    cr_assert(eq(i32, lost->member_epoch, joined));
    const response *out = rig_answer(beat(r, "a", a->member_epoch));
    cr_assert(eq(i16, out->error_code, KAFKA_NONE), "it is not thrown out");
    cr_assert(eq(i32, out->member_epoch, joined));
    cr_assert(eq(ptr, out->assignment, NULL), "it has said that it has the rest");
    rig_free(r);
}

/* So does librdkafka until it is answered in time. */
Test(consumer_hold, an_epoch_is_not_told_alone_to_who_says_what_it_had)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000);
    struct rig_call *call = beat(r, "a", epoch);
    const int32_t joined = join(r, "b")->member_epoch;
    response half = *(const response *)rig_answer(call);
    (void)rig_answer(acknowledge(r, "a", &half));
    half.member_epoch = joined;
    call = acknowledge(r, "a", &half);
    rig_pass_ms(r, 2000);
    (void)rig_answer(beat(r, "b", -1));
    rig_pass_ms(r, 1000);
    const response *lost = rig_answer(call);
    cr_assert(ne(ptr, lost->assignment, NULL));
    const response *out = rig_answer(acknowledge(r, "a", &half));
    cr_assert(eq(i32, out->member_epoch, lost->member_epoch));
    cr_assert(ne(ptr, out->assignment, NULL));
    cr_assert(eq(sz, out->assignment->topic_partitions[0].partitions_count, 4));
    rig_free(r);
}

/* Whoever asks what he should not must not wait for the answer. */
Test(consumer_hold, errors_and_lost_answers_do_not_wait)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    cr_assert(beat(r, "a", epoch + 1)->is_answered);
    cr_assert(beat(r, "nobody", epoch)->is_answered);
    (void)join(r, "a");
    cr_assert(eq(i32, join(r, "a")->member_epoch, epoch), "a join is answered in full");
    rig_free(r);
}

Test(consumer_hold, ends_with_the_member)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    struct rig_call *call = beat(r, "a", epoch);
    (void)rig_answer(beat(r, "a", -1));
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_UNKNOWN_MEMBER_ID));
    rig_free(r);
}

Test(consumer_hold, ends_with_the_coordinator)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    struct rig_call *call = beat(r, "a", epoch);
    rig_handover(r);
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_NOT_COORDINATOR));
    cr_assert(not(beat(r, "a", epoch)->is_answered), "the next one waits there");
    rig_free(r);
}

/* Another coordinator knows what a member may use, but not whether it has heard of that. */
Test(consumer_hold, told_again_by_another_coordinator)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_handover(r);
    const response *out = answer_in_time(r, beat(r, "a", epoch));
    cr_assert(ne(ptr, out->assignment, NULL), "the last answer may be lost");
    out = answer_in_time(r, acknowledge(r, "a", out));
    cr_assert(eq(ptr, out->assignment, NULL), "now it is known");
    rig_free(r);
}

/* Meanwhile the member has begun to use what it was given. */
Test(consumer_hold, what_it_said_of_its_partitions_is_old)
{
    static struct consumer_group_heartbeat_request_topic_partition nothing[1];
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 2000);
    request *in = new_request(r, "a", epoch);
    in->topic_partitions = nothing;
    struct rig_call *call = send(r, in);
    cr_assert(not(call->is_answered));
    (void)join(r, "b");
    const response *out = rig_answer(call);
    cr_assert(eq(i32, out->member_epoch, epoch), "it has to give back first");
    rig_free(r);
}

Test(consumer_hold, what_it_said_of_its_topics_is_old)
{
    static struct slice names[] = {{(const uint8_t *)"t", 1}, {(const uint8_t *)"u", 1}};
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_topic(r, "u", 1);
    request *in = new_request(r, "a", epoch);
    in->subscribed_topic_names = names;
    in->subscribed_topic_names_count = 1;
    struct rig_call *call = send(r, in);
    cr_assert(not(call->is_answered));
    in = new_request(r, "a", epoch);
    in->subscribed_topic_names = names;
    in->subscribed_topic_names_count = 2;
    const struct rig_call *second = send(r, in);
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_NONE));
    rig_pass_ms(r, 2000);
    const response *out = rig_answer(second);
    if (out->assignment == NULL) {
        out = rig_answer(beat(r, "a", out->member_epoch));
    }
    cr_assert(ne(ptr, out->assignment, NULL));
    cr_assert(eq(sz, out->assignment->topic_partitions_count, 2));
    rig_free(r);
}

/* One that waits its turn and is hurried was not here before: it counts for the session. */
Test(consumer_hold, whoever_is_hurried_is_heard_of)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    rig_pass_ms(r, 44000);
    r->is_holding = true;
    request *in = new_request(r, "b", 0);
    static struct slice names[] = {{(const uint8_t *)"t", 1}};
    static struct consumer_group_heartbeat_request_topic_partition nothing[1];
    in->rebalance_timeout_ms = TIMEOUT_MS;
    in->subscribed_topic_names = names;
    in->subscribed_topic_names_count = 1;
    in->topic_partitions = nothing;
    (void)send(r, in);
    struct rig_call *call = beat(r, "a", epoch);
    rig_cancel(call);
    r->is_holding = false;
    rig_commit_all(r);
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_NONE));
    rig_pass_ms(r, 2000);
    call = beat(r, "a", epoch);
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_NONE));
    rig_free(r);
}

/* ---- at the gate: another member's batch is under way ---- */

static struct rig_call *join_under_way(struct rig *r, const char *member)
{
    static struct slice names[] = {{(const uint8_t *)"t", 1}};
    static struct consumer_group_heartbeat_request_topic_partition nothing[1];
    request *in = new_request(r, member, 0);
    in->rebalance_timeout_ms = TIMEOUT_MS;
    in->subscribed_topic_names = names;
    in->subscribed_topic_names_count = 1;
    in->topic_partitions = nothing;
    r->is_holding = true;
    return send(r, in);
}

static void let_go(struct rig *r)
{
    r->is_holding = false;
    rig_commit_all(r);
}

Test(consumer_hold, who_waits_at_the_gate_is_hurried_not_refused)
{
    struct rig *r = new_rig();
    const int32_t epoch = join(r, "a")->member_epoch;
    (void)join_under_way(r, "b");
    struct rig_call *call = beat(r, "a", epoch);
    cr_assert(not(call->is_answered));
    rig_cancel(call); /* Its client sent a commit behind it. */
    let_go(r);
    cr_assert(eq(i16, ((const response *)rig_answer(call))->error_code, KAFKA_NONE));
    rig_free(r);
}

Test(consumer_hold, who_says_goodbye_and_hangs_up_has_left)
{
    struct rig *r = new_rig();
    (void)join(r, "a");
    (void)join_under_way(r, "b");
    struct rig_call *call = beat(r, "a", -1);
    rig_cancel(call);
    let_go(r);
    const response *out = rig_answer(beat(r, "a", -1));
    cr_assert(eq(i16, out->error_code, KAFKA_UNKNOWN_MEMBER_ID), "it left already");
    rig_free(r);
}
