#include "storage/space.h"

#include <inttypes.h>

#include "core/assert.h"
#include "core/logger.h"
#include "core/reached.h"
#include "core/shard.h"

enum {
    RESERVE_SHARE = 50,
    RESERVE_SHARE_MAX = 4,
    RETURN_SHARE = 8,
    SHORT_SHARE = 16, /* Above the reserve: a batch more, and it is reached. */
    RESERVE_SIZE_MIN = 32 << 20,
    RESERVE_SIZE_MAX = 1 << 30,
    /* Sampled again when this share of what is left above the reserve was taken. */
    TAKEN_SHARE = 4,
};

uint64_t space_reserve_default(uint64_t fs_size)
{
    uint64_t size = fs_size / RESERVE_SHARE;
    size = size > RESERVE_SIZE_MIN ? size : RESERVE_SIZE_MIN;
    size = size < RESERVE_SIZE_MAX ? size : RESERVE_SIZE_MAX;
    return size < fs_size / RESERVE_SHARE_MAX ? size : fs_size / RESERVE_SHARE_MAX;
}

void space_init(struct space *sp, struct shard *s, const char *dir, uint64_t reserve_size)
{
    *sp = (struct space){
        .s = s,
        .dir = dir,
        .reserve_size = reserve_size,
        .available_size = UINT64_MAX,
    };
}

/* What is left when the tier has taken all it may. After a refusal some more has to come back, or a
 * disk at the limit would take and refuse in turns. */
static uint64_t kept_from(const struct space *sp, enum space_tier tier)
{
    switch (tier) {
    case SPACE_DATA:
        return sp->reserve_size + (sp->is_refusing ? sp->reserve_size / RETURN_SHARE : 0);
    case SPACE_INTERNAL:
        return sp->reserve_size / 2;
    case SPACE_CONTROL:
    case SPACE_TIERS_COUNT:
        break;
    }
    return 0;
}

/* Negative where less is left than the tier has to keep. */
static int64_t left_for(const struct space *sp, enum space_tier tier)
{
    const uint64_t gone = sp->taken_size + sp->promised_size + kept_from(sp, tier);
    const uint64_t available = sp->available_size < INT64_MAX ? sp->available_size : INT64_MAX;
    return (int64_t)available - (int64_t)gone;
}

uint64_t space_left(const struct space *sp, enum space_tier tier)
{
    const int64_t left = left_for(sp, tier);
    return left > 0 ? (uint64_t)left : 0;
}

static bool is_there(const struct space *sp, enum space_tier tier, uint64_t size)
{
    const int64_t left = left_for(sp, tier);
    return left >= 0 && (uint64_t)left >= size;
}

static void set_short(struct space *sp, bool is_short, const char *what)
{
    if (is_short == (sp->is_short != 0)) {
        return;
    }
    sp->is_short = is_short;
    if (is_short) {
        reached(sp->s, "space_is_short");
        log_warn(sp->s->log,
                 "disk_full",
                 "dir=%s available=%" PRIu64 " reserve=%" PRIu64
                 " refused=\"produce, new topics\" while=\"%s\" action=\"free some space: "
                 "delete topics or records, or shorten retention; it goes on by itself then\"",
                 sp->dir,
                 sp->available_size,
                 sp->reserve_size,
                 what);
    } else {
        reached(sp->s, "space_is_back");
        log_info(
            sp->s->log, "disk_has_space", "dir=%s available=%" PRIu64, sp->dir, sp->available_size);
    }
}

bool space_is_tight(const struct space *sp)
{
    return sp->has_sample &&
           (sp->is_refusing || !is_there(sp, SPACE_CONTROL, 2 * sp->reserve_size));
}

static void tell_if_tight(const struct space *sp)
{
    if (sp->on_tight != NULL && space_is_tight(sp)) {
        sp->on_tight(sp->tight_context);
    }
}

void space_sample(struct space *sp)
{
    uint64_t available;
    if (io_available(&sp->s->io, sp->dir, &available) == ERR_OK) {
        sp->available_size = available;
    }
    sp->taken_size = 0; /* Also if it cannot be asked: then the last answer is all there is. */
    sp->sampled_us = sp->s->now_us;
    sp->has_sample = true;
    const uint64_t reserve = sp->reserve_size;
    if (sp->is_refusing && is_there(sp, SPACE_DATA, 1)) {
        sp->is_refusing = false;
    }
    const uint64_t least = reserve / (sp->is_short != 0 ? RETURN_SHARE : SHORT_SHARE);
    set_short(sp,
              sp->is_refusing || (reserve > 0 && !is_there(sp, SPACE_DATA, least)),
              "the reserve is reached");
    tell_if_tight(sp);
}

static void sample_if_due(struct space *sp)
{
    const uint64_t above =
        sp->available_size > sp->reserve_size ? sp->available_size - sp->reserve_size : 0;
    if (!sp->has_sample || sp->s->now_us - sp->sampled_us >= SPACE_SAMPLE_US ||
        (sp->taken_size > above / TAKEN_SHARE && sp->s->now_us != sp->sampled_us)) {
        space_sample(sp);
    }
}

bool space_may_take(struct space *sp, enum space_tier tier, uint64_t size)
{
    if (sp == NULL || sp->reserve_size == 0 || tier == SPACE_CONTROL) {
        return true;
    }
    sample_if_due(sp);
    if (is_there(sp, tier, size)) {
        return true;
    }
    sp->refused++;
    sp->is_refusing |= tier == SPACE_DATA;
    set_short(sp, true, "the reserve is reached");
    return false;
}

bool space_has_spare(struct space *sp, enum space_tier tier, uint64_t size)
{
    if (sp == NULL || sp->reserve_size == 0 || tier == SPACE_CONTROL) {
        return true;
    }
    sample_if_due(sp);
    return is_there(sp, tier, size);
}

void space_promise(struct space *sp, uint64_t size_before, uint64_t size)
{
    if (sp != NULL) {
        assert_cmp(sp->promised_size, >=, size_before);
        sp->promised_size += size - size_before;
    }
}

void space_take(struct space *sp, uint64_t size)
{
    if (sp != NULL) {
        sp->taken_size += size;
    }
}

void space_exhausted(struct space *sp, const char *what)
{
    if (sp != NULL) {
        space_sample(sp);
        sp->is_refusing = true;
        set_short(sp, true, what);
        tell_if_tight(sp);
    }
}

bool space_is_short(const struct space *sp)
{
    return sp->is_short != 0;
}
