#include "groups/topic_pattern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "groups/topic_pattern_priv.h"

enum {
    VISITS_MAX = 16 * TOPIC_PATTERN_STATES_MAX, /* Of nodes, to write a pattern out. */
    SETS_MAX = 512,                             /* Different ones. */
};

static const char TOO_LARGE[] = "expression too large";

enum op {
    OP_SET,    /* A character of sets[x], and on. */
    OP_EITHER, /* On at x, and at y. */
    OP_GO,     /* On at x. */
    OP_BEGIN,  /* On if it is true here. */
    OP_END,
    OP_BOUNDARY,
    OP_NOT_BOUNDARY,
    OP_DONE,
};

struct state {
    uint8_t op; /* enum op */
    uint16_t x;
    uint16_t y;
};

/* Which states are walked; each once, in the order in which they came. */
struct walkers {
    uint16_t *list;
    uint16_t *places; /* In list, of each state; may be rubbish for those that are not in it. */
    uint32_t count;
};

struct topic_pattern {
    struct pattern_set *sets;
    struct state *states;
    struct walkers now;
    struct walkers next;
    uint16_t *stack;
    uint32_t states_count;
    size_t size;
    uint8_t memory[]; /* Of all of them. */
};

static_assert(sizeof(struct topic_pattern) % sizeof(uint64_t) == 0, "sets behind it are aligned");

/* ---- writing out ---- */

struct writer {
    const struct pattern_tree *tree;
    uint32_t states_count;
    uint32_t visits;
    uint32_t sets_count;
    bool is_too_large;
    struct state states[TOPIC_PATTERN_STATES_MAX];
    struct pattern_set sets[SETS_MAX];
};

static uint16_t put(struct writer *w, enum op op, uint16_t x, uint16_t y)
{
    if (w->states_count == TOPIC_PATTERN_STATES_MAX) {
        w->is_too_large = true;
        return 0;
    }
    w->states[w->states_count] = (struct state){.op = (uint8_t)op, .x = x, .y = y};
    return (uint16_t)w->states_count++;
}

static uint16_t set_index(struct writer *w, const struct pattern_set *s)
{
    for (uint32_t i = 0; i < w->sets_count; i++) {
        if (memcmp(&w->sets[i], s, sizeof(*s)) == 0) {
            return (uint16_t)i;
        }
    }
    if (w->sets_count == SETS_MAX) {
        w->is_too_large = true;
        return 0;
    }
    w->sets[w->sets_count] = *s;
    return (uint16_t)w->sets_count++;
}

static void write_node(struct writer *w, uint16_t node);

/* Those whose way out is not known yet are chained by what is to become it. */
static void patch_x(struct writer *w, uint16_t chain)
{
    while (chain != PATTERN_NONE) {
        const uint16_t following = w->states[chain].x;
        w->states[chain].x = (uint16_t)w->states_count;
        chain = following;
    }
}

static void patch_y(struct writer *w, uint16_t chain)
{
    while (chain != PATTERN_NONE) {
        const uint16_t following = w->states[chain].y;
        w->states[chain].y = (uint16_t)w->states_count;
        chain = following;
    }
}

static void write_one_of(struct writer *w, const struct pattern_node *n)
{
    uint16_t ends = PATTERN_NONE;
    for (uint16_t child = n->child; child != PATTERN_NONE && !w->is_too_large;) {
        const uint16_t following = w->tree->nodes[child].next;
        if (following == PATTERN_NONE) {
            write_node(w, child);
        } else {
            const uint16_t either = put(w, OP_EITHER, (uint16_t)(w->states_count + 1), 0);
            write_node(w, child);
            ends = put(w, OP_GO, ends, 0);
            w->states[either].y = (uint16_t)w->states_count;
        }
        child = following;
    }
    if (!w->is_too_large) {
        patch_x(w, ends);
    }
}

static void write_repeat(struct writer *w, const struct pattern_node *n)
{
    uint16_t from = 0;
    for (int i = 0; i < n->least && !w->is_too_large; i++) {
        from = (uint16_t)w->states_count;
        write_node(w, n->child);
    }
    if (n->most == PATTERN_ENDLESS && n->least > 0) {
        (void)put(w, OP_EITHER, from, (uint16_t)(w->states_count + 1));
        return;
    }
    const int optional = n->most == PATTERN_ENDLESS ? 1 : n->most - n->least;
    uint16_t ends = PATTERN_NONE;
    for (int i = 0; i < optional && !w->is_too_large; i++) {
        ends = put(w, OP_EITHER, (uint16_t)(w->states_count + 1), ends);
        write_node(w, n->child);
    }
    if (n->most == PATTERN_ENDLESS) {
        (void)put(w, OP_GO, ends, 0);
    }
    if (!w->is_too_large) {
        patch_y(w, ends);
    }
}

static void write_node(struct writer *w, uint16_t node)
{
    const struct pattern_node *n = &w->tree->nodes[node];
    w->is_too_large |= ++w->visits > VISITS_MAX;
    if (w->is_too_large) {
        return;
    }
    switch (n->kind) {
    case PATTERN_SET:
        (void)put(w, OP_SET, set_index(w, &n->set), 0);
        break;
    case PATTERN_ALL_OF:
        for (uint16_t child = n->child; child != PATTERN_NONE; child = w->tree->nodes[child].next) {
            write_node(w, child);
        }
        break;
    case PATTERN_ONE_OF:
        write_one_of(w, n);
        break;
    case PATTERN_REPEAT:
        write_repeat(w, n);
        break;
    case PATTERN_BEGIN:
        (void)put(w, OP_BEGIN, 0, 0);
        break;
    case PATTERN_END:
        (void)put(w, OP_END, 0, 0);
        break;
    case PATTERN_BOUNDARY:
        (void)put(w, OP_BOUNDARY, 0, 0);
        break;
    case PATTERN_NOT_BOUNDARY:
        (void)put(w, OP_NOT_BOUNDARY, 0, 0);
        break;
    }
}

/* ---- making one ---- */

static struct topic_pattern *new_from(const struct writer *w)
{
    const size_t count = w->states_count;
    const size_t sets_size = w->sets_count * sizeof(struct pattern_set);
    const size_t states_size = count * sizeof(struct state);
    const size_t size =
        sizeof(struct topic_pattern) + sets_size + states_size + (4 + 2) * count * sizeof(uint16_t);
    struct topic_pattern *p = calloc(1, size);
    if (p == NULL) {
        return NULL;
    }
    p->size = size;
    p->states_count = (uint32_t)count;
    p->sets = (struct pattern_set *)(void *)p->memory;
    p->states = (struct state *)(void *)(p->memory + sets_size);
    uint16_t *numbers = (uint16_t *)(void *)(p->memory + sets_size + states_size);
    p->now = (struct walkers){.list = numbers, .places = numbers + count};
    p->next = (struct walkers){.list = numbers + 2 * count, .places = numbers + 3 * count};
    p->stack = numbers + 4 * count;
    memcpy(p->sets, w->sets, sets_size);
    memcpy(p->states, w->states, states_size);
    return p;
}

static enum err
compile(struct pattern_tree *tree, struct writer *w, struct topic_pattern **ret_pattern)
{
    w->tree = tree;
    write_node(w, tree->root);
    (void)put(w, OP_DONE, 0, 0);
    if (w->is_too_large) {
        return ERR_INVALID;
    }
    *ret_pattern = new_from(w);
    return *ret_pattern == NULL ? ERR_BUSY : ERR_OK;
}

enum err
topic_pattern_new(struct slice text, struct topic_pattern **ret_pattern, const char **ret_why)
{
    struct pattern_tree *tree = malloc(sizeof(*tree));
    struct writer *w = calloc(1, sizeof(*w));
    enum err e = tree == NULL || w == NULL ? ERR_BUSY : ERR_OK;
    if (e == ERR_OK) {
        const char *why = pattern_parse(tree, text);
        e = why == NULL ? compile(tree, w, ret_pattern) : ERR_INVALID;
        if (e == ERR_INVALID) {
            *ret_why = why == NULL ? TOO_LARGE : why;
        }
    }
    free(w);
    free(tree);
    return e;
}

void topic_pattern_free(struct topic_pattern *p)
{
    free(p);
}

size_t topic_pattern_size(const struct topic_pattern *p)
{
    return p->size;
}

/* ---- matching ---- */

static bool is_word(struct slice name, size_t at)
{
    if (at >= name.size) {
        return false;
    }
    const uint8_t c = name.data[at];
    const uint8_t lower = c | 0x20;
    return (c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'z') || c == '_';
}

static bool is_true_at(enum op op, struct slice name, size_t at)
{
    const bool is_boundary = (at > 0 && is_word(name, at - 1)) != is_word(name, at);
    switch (op) {
    case OP_BEGIN:
        return at == 0;
    case OP_END:
        return at == name.size;
    case OP_BOUNDARY:
        return is_boundary;
    case OP_NOT_BOUNDARY:
        return !is_boundary;
    case OP_SET:
    case OP_EITHER:
    case OP_GO:
    case OP_DONE:
        break;
    }
    assert(false && "no condition");
    return false;
}

static bool is_walked(const struct walkers *w, uint16_t state)
{
    const uint16_t place = w->places[state];
    return place < w->count && w->list[place] == state;
}

/* Adds a state, and all that it leads to without a character. Each is put on the stack by two
 * others at most, so that holds. Returns the steps. */
static uint64_t walk_to(
    const struct topic_pattern *p, struct walkers *w, uint16_t from, struct slice name, size_t at)
{
    uint32_t depth = 0;
    uint64_t steps = 0;
    p->stack[depth++] = from;
    while (depth > 0) {
        const uint16_t state = p->stack[--depth];
        steps++;
        if (is_walked(w, state)) {
            continue;
        }
        w->places[state] = (uint16_t)w->count;
        w->list[w->count++] = state;
        const struct state *s = &p->states[state];
        if (s->op == OP_EITHER || s->op == OP_GO) {
            p->stack[depth++] = s->x;
        }
        if (s->op == OP_EITHER) {
            p->stack[depth++] = s->y;
        }
        const bool is_condition =
            s->op != OP_EITHER && s->op != OP_GO && s->op != OP_SET && s->op != OP_DONE;
        if (is_condition && is_true_at(s->op, name, at)) {
            p->stack[depth++] = (uint16_t)(state + 1);
        }
    }
    return steps;
}

bool topic_pattern_matches(struct topic_pattern *p, struct slice name, uint64_t *steps)
{
    p->now.count = 0;
    *steps += walk_to(p, &p->now, 0, name, 0);
    for (size_t at = 0; at < name.size && p->now.count > 0; at++) {
        p->next.count = 0;
        *steps += p->now.count;
        for (uint32_t i = 0; i < p->now.count; i++) {
            const uint16_t state = p->now.list[i];
            const struct state *s = &p->states[state];
            if (s->op == OP_SET && pattern_set_has(&p->sets[s->x], name.data[at])) {
                *steps += walk_to(p, &p->next, (uint16_t)(state + 1), name, at + 1);
            }
        }
        const struct walkers over = p->now;
        p->now = p->next;
        p->next = over;
    }
    for (uint32_t i = 0; i < p->now.count; i++) {
        if (p->states[p->now.list[i]].op == OP_DONE) {
            return true;
        }
    }
    return false;
}
