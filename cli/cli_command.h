/* The commands as a table: parsing, --help, and whatever else has to know them come from it.
 *
 * Rules
 * 1. A letter or name of an option takes a value in all commands or in none: so the words of a
 *    command line are known before the command is.
 * 2. Errors are one line on stderr: `coreflume: what: what to do`. Exit codes: 0 ok, 1 failed, 2
 *    wrong usage.
 * 3. Output is for people unless --json asks for JSON.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_DAMAGED = 3, /* log repair looked, and found damage. */
};

enum cli_kind {
    CLI_FLAG, /* No value. */
    CLI_TEXT,
    CLI_NUMBER, /* An integer from min to max. */
    CLI_CHOICE, /* One of words. */
};

struct cli_option {
    char letter;      /* 0: none. */
    const char *name; /* Without dashes. NULL ends a list. */
    enum cli_kind kind;
    const char *value; /* How help calls the value; NULL for flags. */
    const char *help;
    bool is_repeatable;
    int64_t min;
    int64_t max;
    const char *words; /* "a|b|c" */
};

struct cli;

struct cli_command {
    const char *name;                 /* "topic create" */
    const char *operands;             /* "TOPIC...", or "". See below. */
    const char *summary;              /* One line, no full stop. */
    const char *details;              /* Paragraphs for help, or NULL. Their lines are filled, but
                                         those that begin with a space stay as they are. */
    const struct cli_option *options; /* Ends with an empty row; may be NULL. */
    int operands_min;
    int operands_max;            /* -1: any number. */
    bool has_brokers;            /* Takes -b. */
    bool has_json;               /* Takes --json. */
    int (*run)(struct cli *cli); /* NULL: start, which is the broker's. */
};

/* What completion offers for operands and values follows from how the table calls them: TOPIC is a
 * topic that exists, GROUP a group, FILE and DIR are paths, COMMAND is a row of this table, SHELL a
 * CLI_CHOICE of completion; of anything else nothing is known.
 *
 * All commands, in the order of help. */
extern const struct cli_command CLI_COMMANDS[];
extern const size_t CLI_COMMANDS_COUNT;

extern const struct cli_option CLI_OPTION_BROKERS;
extern const struct cli_option CLI_OPTION_JSON;
extern const struct cli_option CLI_OPTION_HELP;

/* The index-th option that a command takes, its own first; NULL behind the last. */
const struct cli_option *cli_option_at(const struct cli_command *command, size_t index);
/* Calls print for each of them. */
typedef void (*cli_option_printer)(FILE *out,
                                   const struct cli_command *command,
                                   const struct cli_option *o);
void cli_each_option(FILE *out, const struct cli_command *command, cli_option_printer print);

/* What help and the manual say about all commands. */
extern const char CLI_ABOUT[];
extern const char CLI_ABOUT_OPTIONS[];

struct cli_value {
    const struct cli_option *option;
    const char *text; /* NULL for flags. */
};

/* One call of the program. */
struct cli {
    const struct cli_command *command;
    const char **operands; /* Behind the words of the command. */
    const char **operands_memory;
    int operands_count;
    struct cli_value *values; /* In the order of the command line. */
    int values_count;
    FILE *out;
    FILE *err;
    int in_fd;
};

/* Writes `coreflume: ...` and a newline to err; returns code. */
[[gnu::format(printf, 3, 4)]] int cli_fail(struct cli *cli, int code, const char *format, ...);

/* The runs, by command. */
int cli_topic_create(struct cli *cli);
int cli_topic_list(struct cli *cli);
int cli_topic_describe(struct cli *cli);
int cli_topic_delete(struct cli *cli);
int cli_topic_grow(struct cli *cli);
int cli_topic_config(struct cli *cli);
int cli_topic_alter(struct cli *cli);
int cli_topic_trim(struct cli *cli);
int cli_broker_config(struct cli *cli);
int cli_broker_alter(struct cli *cli);
int cli_group_list(struct cli *cli);
int cli_group_describe(struct cli *cli);
int cli_group_seek(struct cli *cli);
int cli_group_delete(struct cli *cli);
int cli_produce(struct cli *cli);
int cli_consume(struct cli *cli);
int cli_bench(struct cli *cli);
int cli_log_dump(struct cli *cli);
int cli_log_repair(struct cli *cli);
int cli_check(struct cli *cli);
int cli_version(struct cli *cli);
int cli_completion(struct cli *cli);
int cli_manual(struct cli *cli);
int cli_help(struct cli *cli);
