/* The tree that a pattern is parsed into, between topic_pattern_parse.c and topic_pattern.c. */
#pragma once

#include "groups/topic_pattern.h"

enum {
    PATTERN_NODES_MAX = 2 * TOPIC_PATTERN_SIZE_MAX + 8,
    PATTERN_HEIGHT_MAX = 4 * TOPIC_PATTERN_NESTING_MAX,
    PATTERN_NONE = UINT16_MAX, /* No node. */
    PATTERN_ENDLESS = -1,      /* Of most. */
};

/* A set of ASCII characters. */
struct pattern_set {
    uint64_t bits[2];
};

enum pattern_node_kind {
    PATTERN_SET,          /* One character of set. */
    PATTERN_ALL_OF,       /* Children one after the other; none: empty. */
    PATTERN_ONE_OF,       /* Any of the children. */
    PATTERN_REPEAT,       /* The child least to most times. */
    PATTERN_BEGIN,        /* Nothing, at the begin of the name. */
    PATTERN_END,          /* Nothing, at its end. */
    PATTERN_BOUNDARY,     /* Nothing, between a word and what is none. */
    PATTERN_NOT_BOUNDARY, /* Nothing, elsewhere. */
};

struct pattern_node {
    enum pattern_node_kind kind;
    uint16_t child; /* First. */
    uint16_t next;  /* Of the same parent. */
    uint16_t height;
    int16_t least;
    int16_t most;
    struct pattern_set set;
};

struct pattern_tree {
    struct pattern_node nodes[PATTERN_NODES_MAX];
    uint32_t nodes_count;
    uint16_t root;
};

static inline bool pattern_set_has(const struct pattern_set *s, uint8_t c)
{
    return c < 128 && (s->bits[c / 64] >> (c % 64) & 1) != 0;
}

/* NULL, or what is wrong with text. */
const char *pattern_parse(struct pattern_tree *tree, struct slice text);
