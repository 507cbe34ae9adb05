/* Configuration by a table: names, types, limits, defaults and one line of text each.
 *
 * The table belongs to whoever gives its options a meaning (broker/ for the broker's, cluster/ for
 * topics); this module reads, checks and explains. A broker's values come from the table's
 * defaults, then from one YAML file, then from --set and other flags, in this order.
 *
 * The file is one flat map: `key: value`, `key: [a, b]`, or a block list. Nothing is guessed: an
 * unknown name, a bad value, a nested map or a key given twice is an error of one line that says
 * where it stands and what would be right:
 *
 *   coreflume.yaml:3: unknown key 'auto.create.topic.enable', did you mean
 *   'auto.create.topics.enable'?                                     (in one line)
 *
 * Forms of values:
 *   bool      true, false
 *   int       digits, perhaps a sign
 *   size      bytes, or with KiB, MiB, GiB: 1GiB. A sign only where min < 0 (-1 = no limit)
 *   duration  milliseconds, or with ms, s, m, h, d: 7d. A sign as for sizes
 *   string    anything without control characters
 *   list      items separated by commas; in the file a list
 *   enum      one of the option's words
 *
 * Shard: read by all, after it was filled before the shards start; written by nobody then.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/err.h"

enum {
    CONFIG_WHY_SIZE = 512, /* Of the one line that explains an error. */
};

enum config_type {
    CONFIG_BOOL,
    CONFIG_INT,
    CONFIG_SIZE,
    CONFIG_DURATION_MS,
    CONFIG_STRING,
    CONFIG_LIST,
    CONFIG_ENUM,
};

struct config_option {
    const char *name;
    enum config_type type;
    const char
        *fallback; /* The default, in the form of values; NULL: unset, text "" and number 0. */
    int64_t min;   /* For int, size and duration; both 0: any value >= 0. */
    int64_t max;
    const char *words; /* For enum: "none|gzip|lz4". */
    const char *unit;  /* For int: what is counted ("threads"); NULL for none. */
    const char *doc;   /* One sentence. */
    bool is_dynamic;   /* May change while the broker runs. */
};

struct config_table {
    const struct config_option *options;
    size_t count;
};

/* NULL if there is none of that name. */
const struct config_option *config_find(const struct config_table *t, const char *name);

/* Whether name=value would be accepted. ERR_CONFIG_INVALID with one line in ret_why if not. */
enum err config_check(const struct config_table *t,
                      const char *name,
                      const char *value,
                      char ret_why[CONFIG_WHY_SIZE]);

/* The number a text stands for: bool (0, 1), int, size (bytes), duration (ms), enum (position in
 * words). ERR_CONFIG_INVALID for a text that config_check refuses, and for strings and lists. */
enum err config_parse(const struct config_option *o, const char *text, int64_t *ret_number);

/* text as it can be seen: a space that is none, or a byte a terminal would obey, is what is often
 * wrong. Cut to size - 1 characters. */
void config_print_visibly(char *ret_text, size_t size, const char *text);

/* The table as Markdown, for docs/configuration.md. */
void config_print_markdown(const struct config_table *t, FILE *out);

struct config;

/* All defaults. The defaults must be valid: asserted, and a unit test of the table's owner. The
 * table must outlive the config. ERR_BUSY when out of memory. */
enum err config_new(const struct config_table *t, struct config **ret_config);
/* Accepts NULL. */
void config_free(struct config *c);
const struct config_table *config_table_of(const struct config *c);

/* On any error nothing of the file counts, and ret_why has one line.
 *   ERR_NOT_FOUND       no such file
 *   ERR_IO              it cannot be read
 *   ERR_CONFIG_INVALID  what it says is wrong */
enum err config_load_file(struct config *c, const char *path, char ret_why[CONFIG_WHY_SIZE]);

/* The same for text in memory; path is the name for messages. */
enum err config_load_text(struct config *c,
                          const char *path,
                          const char *text,
                          size_t size,
                          char ret_why[CONFIG_WHY_SIZE]);

/* The argument of --set: KEY=VALUE. */
enum err config_set_pair(struct config *c, const char *pair, char ret_why[CONFIG_WHY_SIZE]);

/* One value. where stands at the head of messages: the flag's name, or "file:line". */
enum err config_set(struct config *c,
                    const char *where,
                    const char *name,
                    const char *value,
                    char ret_why[CONFIG_WHY_SIZE]);

/* Getters. The name must be in the table and have a fitting type: asserted. */
bool config_bool(const struct config *c, const char *name);
/* int, size in bytes, duration in milliseconds, enum as position in its words. */
int64_t config_number(const struct config *c, const char *name);
/* As given, or as the table's default. For every type. */
const char *config_text(const struct config *c, const char *name);
size_t config_list_count(const struct config *c, const char *name);
/* Copies item index, cut to size - 1 characters. False if there is no such item. */
bool config_list_item(
    const struct config *c, const char *name, size_t index, char *ret_item, size_t size);
/* "default", "file:line" or the flag: where the value came from. */
const char *config_origin(const struct config *c, const char *name);
