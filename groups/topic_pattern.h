/* Regular expressions by which members of the new protocol subscribe (SubscribedTopicRegex): the
 * syntax of RE2, as Kafka has it through RE2/J, matched against whole names of topics.
 *
 * Patterns come from clients, so every cost has a bound that no pattern gets round: memory, nesting
 * and the time to compile by the limits below; the time to match by states * characters of the
 * name, because all ways through the pattern are walked at once (Thompson). Nothing backtracks.
 *
 * Names of topics are ASCII. A character of the pattern that is not matches nothing, and classes
 * are kept for ASCII only. Of what RE2 knows only \p{...} of most scripts is refused here.
 *
 * Shard: any; a pattern is used by one at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/slice.h"

enum {
    TOPIC_PATTERN_SIZE_MAX = 4096,   /* Bytes. */
    TOPIC_PATTERN_STATES_MAX = 2048, /* Counted repetitions are written out. */
    TOPIC_PATTERN_REPEAT_MAX = 1000, /* RE2's. */
    TOPIC_PATTERN_NESTING_MAX = 100, /* Parentheses. */
};

struct topic_pattern;

/* *ret_why, of an ERR_INVALID, is in RE2's words where it has any: Kafka's answer to the client is
 * "SubscribedTopicRegex `<pattern>` is not a valid regular expression: <why>."
 *   ERR_INVALID  not a pattern, or beyond a limit
 *   ERR_BUSY     no memory */
enum err
topic_pattern_new(struct slice text, struct topic_pattern **ret_pattern, const char **ret_why);
/* Accepts NULL. */
void topic_pattern_free(struct topic_pattern *p);

/* Bytes it takes: at most 64 KiB. */
size_t topic_pattern_size(const struct topic_pattern *p);

/* Whether the whole name is what the pattern says. Adds to *steps, a measure of the time that took
 * (some nanoseconds each), so that a caller with many names can take turns. At most about three
 * times states * characters: a million and a half. */
bool topic_pattern_matches(struct topic_pattern *p, struct slice name, uint64_t *steps);
