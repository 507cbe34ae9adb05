#include "storage/recode.h"

#include <stdlib.h>

#include "core/assert.h"
#include "storage/codec.h"

enum recode_state {
    RECODE_DECOMPRESS,
    RECODE_CHECK,
    RECODE_COMPRESS,
    RECODE_DONE,
};

enum {
    STEP_SIZE_MIN = 4 << 10,
    STEP_NS_MIN = 1000,
    CHECK_NS_PER_KIB = 400, /* Of small records. */
};

struct recode {
    struct slice batch;
    struct batch_rules rules;
    struct batch_header header;
    enum batch_codec codec;
    int32_t level;

    enum recode_state state;
    enum err result;
    struct batch_fault fault;
    struct codec_run *run; /* While one runs. */
    struct batch_walk walk;
    struct slice plain; /* The records in plain form; in the batch, or in plain_bytes. */
    struct wbuf plain_bytes;
    struct wbuf packed;
};

/* Nanoseconds per KiB of plain bytes, rounded up from what cores of today do. */
static uint64_t read_cost(enum batch_codec codec)
{
    static const uint16_t costs[CODEC_COUNT] = {
        [CODEC_NONE] = 100,
        [CODEC_GZIP] = 4000,
        [CODEC_SNAPPY] = 1500,
        [CODEC_LZ4] = 800,
        [CODEC_ZSTD] = 1500,
    };
    return costs[codec];
}

static uint64_t write_cost(enum batch_codec codec, int32_t level)
{
    switch (codec) {
    case CODEC_GZIP:
        return level >= 7 ? 100000 : level >= 1 && level <= 3 ? 25000 : 70000;
    case CODEC_SNAPPY:
        return 3000;
    case CODEC_LZ4:
        return level == CODEC_LEVEL_DEFAULT || level == 9 || level < 3 ? 3000 : 70000;
    case CODEC_ZSTD:
        return level <= 4 ? 7000 : level <= 9 ? 60000 : level <= 12 ? 150000 : 600000;
    case CODEC_NONE:
    case CODEC_COUNT:
        break;
    }
    return 100;
}

bool recode_is_needed(const struct recode_wish *wish)
{
    return wish->codec != CODEC_NONE || batch_codec(wish->header) != CODEC_NONE;
}

static bool is_recoded(const struct recode *r)
{
    return r->codec != batch_codec(&r->header);
}

static void start_check(struct recode *r, struct slice plain)
{
    r->plain = plain;
    batch_walk_init(&r->walk, &r->header, plain, &r->rules);
    r->state = RECODE_CHECK;
}

enum err recode_new(const struct recode_wish *wish, struct recode **ret_recode)
{
    struct recode *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        return ERR_BUSY;
    }
    r->batch = wish->batch;
    r->rules = *wish->rules;
    r->header = *wish->header;
    r->codec = wish->codec;
    r->level = wish->level;
    r->fault = (struct batch_fault){.record_index = -1};
    wbuf_init(&r->plain_bytes, batch_records_size_max(wish->rules->size_max));
    /* Compressed bytes may be more than plain ones: the size is judged when they are all there. */
    wbuf_init(&r->packed, INT32_MAX);
    if (batch_codec(&r->header) == CODEC_NONE) {
        start_check(r, batch_records_part(r->batch));
    }
    *ret_recode = r;
    return ERR_OK;
}

void recode_free(struct recode *r)
{
    if (r != NULL) {
        codec_run_free(r->run);
        wbuf_done(&r->plain_bytes);
        wbuf_done(&r->packed);
        free(r);
    }
}

/* ---- steps ---- */

static void end(struct recode *r, enum err e)
{
    codec_run_free(r->run);
    r->run = NULL;
    wbuf_done(&r->plain_bytes);
    if (e == ERR_OK) {
        batch_set_by_leader(&r->header, &r->rules);
        r->header.attributes =
            (int16_t)((r->header.attributes & ~BATCH_CODEC_MASK) | (int)r->codec);
        wbuf_shrink(&r->packed); /* It may have to wait for room in the log. */
    } else {
        wbuf_done(&r->packed);
    }
    r->result = e;
    r->state = RECODE_DONE;
}

static enum err judge_compression(struct recode *r, enum err e)
{
    const char *message = "no memory to compress the records";
    if (e == ERR_OK && r->packed.size + BATCH_HEADER_SIZE > r->rules.size_max) {
        e = ERR_TOO_LARGE;
    }
    if (e == ERR_OK) {
        return ERR_OK;
    }
    if (e == ERR_TOO_LARGE) {
        message = "the batch, with the topic's compression.type, is larger than max.message.bytes";
    }
    r->fault.message = message;
    return e;
}

/* One step of the codec at hand, as large as the budget allows. */
static enum err run_codec(struct recode *r,
                          const struct codec_job *job,
                          uint64_t ns_per_kib,
                          uint64_t *budget_ns,
                          bool *ret_is_done)
{
    *ret_is_done = false;
    if (r->run == NULL) {
        enum err e = codec_run_new(job, &r->run);
        if (e != ERR_OK) {
            return e;
        }
    }
    uint64_t size = *budget_ns / ns_per_kib << 10;
    size = size > STEP_SIZE_MIN ? size : STEP_SIZE_MIN;
    const size_t size_before = job->w->size;
    enum err e = codec_run_step(r->run, (size_t)size, ret_is_done);
    uint64_t moved = job->is_compression ? job->in.size : job->w->size - size_before;
    moved = moved < size ? moved : size;
    const uint64_t cost = (moved >> 10) * ns_per_kib + STEP_NS_MIN;
    *budget_ns = cost < *budget_ns ? *budget_ns - cost : 0;
    if (e == ERR_OK && *ret_is_done) {
        codec_run_free(r->run);
        r->run = NULL;
    }
    return e;
}

static void step_decompress(struct recode *r, uint64_t *budget_ns)
{
    const struct codec_job job = {
        .codec = batch_codec(&r->header),
        .in = batch_records_part(r->batch),
        .size_max = r->plain_bytes.size_max,
        .w = &r->plain_bytes,
    };
    bool is_done;
    enum err e = run_codec(r, &job, read_cost(job.codec), budget_ns, &is_done);
    if (e != ERR_OK) {
        end(r, batch_judge_decompression(e, &r->fault));
    } else if (is_done) {
        start_check(r, wbuf_slice(&r->plain_bytes));
    }
}

/* What 1 MiB was made of may be 32 MiB of the smallest records: milliseconds of walking. */
static void step_check(struct recode *r, uint64_t *budget_ns)
{
    uint64_t size = *budget_ns / CHECK_NS_PER_KIB << 10;
    size = size > STEP_SIZE_MIN ? size : STEP_SIZE_MIN;
    const size_t pos_before = r->walk.pos;
    enum err e = batch_walk_step(&r->walk, (size_t)size, &r->fault);
    const size_t pos = r->walk.is_done ? r->plain.size : r->walk.pos;
    const uint64_t cost = ((pos - pos_before) >> 10) * CHECK_NS_PER_KIB;
    *budget_ns = cost < *budget_ns ? *budget_ns - cost : 0;
    if (e != ERR_OK || (r->walk.is_done && !is_recoded(r))) {
        end(r, e);
    } else if (r->walk.is_done) {
        r->state = RECODE_COMPRESS;
    }
}

static void step_compress(struct recode *r, uint64_t *budget_ns)
{
    if (r->codec == CODEC_NONE) { /* The plain form is what is wanted. */
        r->packed = r->plain_bytes;
        wbuf_init(&r->plain_bytes, 0);
        end(r, judge_compression(r, ERR_OK));
        return;
    }
    const struct codec_job job = {
        .codec = r->codec,
        .is_compression = true,
        .level = r->level,
        .in = r->plain,
        .size_max = SIZE_MAX,
        .w = &r->packed,
    };
    bool is_done;
    enum err e = run_codec(r, &job, write_cost(r->codec, r->level), budget_ns, &is_done);
    if (e != ERR_OK || is_done) {
        end(r, judge_compression(r, e));
    }
}

uint64_t recode_step(struct recode *r, uint64_t budget_ns)
{
    uint64_t left_ns = budget_ns;
    assert(r->state != RECODE_DONE);
    do {
        switch (r->state) {
        case RECODE_DECOMPRESS:
            step_decompress(r, &left_ns);
            break;
        case RECODE_CHECK:
            step_check(r, &left_ns);
            break;
        case RECODE_COMPRESS:
            step_compress(r, &left_ns);
            break;
        case RECODE_DONE:
            break;
        }
    } while (left_ns > 0 && r->state != RECODE_DONE);
    return budget_ns - left_ns;
}

/* ---- results ---- */

bool recode_is_done(const struct recode *r)
{
    return r->state == RECODE_DONE;
}

enum err recode_result(const struct recode *r,
                       struct batch_header *ret_header,
                       struct batch_fault *ret_fault)
{
    assert(r->state == RECODE_DONE);
    *ret_fault = r->fault;
    if (r->result == ERR_OK) {
        *ret_header = r->header;
    }
    return r->result;
}

bool recode_has_own_records(const struct recode *r)
{
    assert(r->state == RECODE_DONE);
    assert(r->result == ERR_OK);
    return r->packed.data != NULL;
}

struct slice recode_records(const struct recode *r)
{
    return recode_has_own_records(r) ? wbuf_slice(&r->packed) : batch_records_part(r->batch);
}

size_t recode_memory_size(const struct recode *r)
{
    return r->plain_bytes.capacity + r->packed.capacity;
}
