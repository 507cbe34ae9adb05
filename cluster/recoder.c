#include "cluster/recoder.h"

#include "core/assert.h"
#include "core/reached.h"

static void run(struct task *t);

void recoder_init(struct recoder *r, struct shard *s)
{
    *r = (struct recoder){.s = s, .turn = UINT64_MAX};
    task_init(&r->task, "recode", run);
    list_init(&r->jobs);
}

void recoder_done(struct recoder *r)
{
    assert(list_is_empty(&r->jobs));
    assert_cmp(r->held_size, ==, 0);
    list_remove(&r->task.link);
}

static struct recode_job *first_job(const struct recoder *r)
{
    return list_is_empty(&r->jobs) ? NULL : container_of(r->jobs.next, struct recode_job, link);
}

static void finish(struct recoder *r, struct recode_job *job, enum err e)
{
    job->is_done = true;
    job->result = e;
    if (job->recode == NULL) {
        return;
    }
    job->held_size = recode_memory_size(job->recode);
    r->held_size += job->held_size;
    r->recoded_batches += e == ERR_OK && recode_has_own_records(job->recode);
}

static enum err begin(struct recode_job *job)
{
    const struct recode_wish wish = {
        .batch = job->batch,
        .header = &job->header,
        .rules = &job->rules,
        .codec = job->codec,
        .level = job->level,
    };
    enum err e = recode_new(&wish, &job->recode);
    if (e != ERR_OK) {
        job->fault = (struct batch_fault){"no memory to look into the records", -1};
    }
    return e;
}

/* Works on the job for what is left of the turn; true when it is done. */
static bool work(struct recoder *r, struct recode_job *job)
{
    if (job->recode == NULL) {
        enum err e = begin(job);
        if (e != ERR_OK) {
            finish(r, job, e);
            return true;
        }
    }
    const uint64_t cost = recode_step(job->recode, r->left_ns);
    r->left_ns = cost < r->left_ns ? r->left_ns - cost : 0;
    if (!recode_is_done(job->recode)) {
        return false;
    }
    finish(r, job, recode_result(job->recode, &job->header, &job->fault));
    return true;
}

static void refill(struct recoder *r)
{
    if (r->turn != r->s->counters.turns) {
        r->turn = r->s->counters.turns;
        r->left_ns = RECODER_TURN_NS;
    }
}

static bool can_work(const struct recoder *r)
{
    return r->left_ns > 0 && r->held_size <= RECODER_HELD_SIZE_MAX;
}

static void run(struct task *t)
{
    struct recoder *r = container_of(t, struct recoder, task);
    struct recode_job *job;
    refill(r); /* What submits of this turn have spent counts. */
    while ((job = first_job(r)) != NULL && can_work(r)) {
        if (work(r, job)) {
            list_remove(&job->link);
            job->on_done(job);
        }
    }
    if (job != NULL && r->held_size <= RECODER_HELD_SIZE_MAX) {
        shard_post(r->s, &r->task);
    }
}

bool recoder_submit(struct recoder *r, struct recode_job *job)
{
    job->recode = NULL;
    job->is_done = false;
    job->held_size = 0;
    list_init(&job->link);
    refill(r);
    if (list_is_empty(&r->jobs) && can_work(r) && work(r, job)) {
        return true;
    }
    reached(r->s, "recode_in_turns");
    list_push_back(&r->jobs, &job->link);
    shard_post(r->s, &r->task);
    return false;
}

struct slice recode_job_records(const struct recode_job *job)
{
    assert(job->is_done);
    return recode_records(job->recode);
}

bool recode_job_has_own_records(const struct recode_job *job)
{
    assert(job->is_done);
    return recode_has_own_records(job->recode);
}

void recoder_drop(struct recoder *r, struct recode_job *job)
{
    list_remove(&job->link);
    assert_cmp(job->held_size, <=, r->held_size);
    r->held_size -= job->held_size;
    recode_free(job->recode);
    if (!list_is_empty(&r->jobs)) {
        shard_post(r->s, &r->task); /* There may be room for the next one now. */
    }
}
