#include "cluster/retention_rule.h"

int64_t retention_time_of(const struct log_segment_info *segment)
{
    return segment->max_timestamp >= 0 ? segment->max_timestamp : segment->changed_ms;
}

static bool is_over_age(const struct retention_rule *r, const struct log_segment_info *segment)
{
    /* Neither side is negative but for a broken clock: no overflow. */
    return r->limits.ms >= 0 && r->wall_ms - retention_time_of(segment) > r->limits.ms;
}

static bool is_over_size(const struct retention_rule *r, const struct log_segment_info *segment)
{
    if (r->limits.size < 0) {
        return false;
    }
    /* An open tail counts to its end in the log, and in whole blocks as a segment. */
    const uint64_t removed_size = r->removed_size + segment->size;
    const uint64_t size_after = r->log_size > removed_size ? r->log_size - removed_size : 0;
    return size_after >= (uint64_t)r->limits.size;
}

bool retention_rule_take(struct retention_rule *r, const struct log_segment_info *segment)
{
    const bool is_empty = segment->is_last && segment->next_offset <= r->start_offset;
    if (is_empty || segment->next_offset > r->high_watermark) {
        return false;
    }
    if (!is_over_age(r, segment) && !is_over_size(r, segment)) {
        return false;
    }
    if (segment->next_offset > r->start_offset) {
        r->start_offset = segment->next_offset;
    }
    r->removed_size += segment->size;
    r->takes_last = segment->is_last;
    return true;
}
