/* Command lines: what they mean, and what is said about those that mean nothing. One row, one rule.
 */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_parse.h"

enum {
    ARGUMENTS_MAX = 12,
    TEXT_SIZE = 1024,
};

/* A parsed line, and what was written to err. */
struct line {
    struct cli cli;
    char *arguments[ARGUMENTS_MAX];
    char *memory;
    char *err;
    size_t err_size;
    int code;
};

/* text: arguments apart by single spaces, behind "coreflume". */
static void parse(struct line *l, const char *text)
{
    *l = (struct line){0};
    l->memory = strdup(text);
    int count = 0;
    l->arguments[count++] = (char *)"coreflume";
    for (char *word = strtok(l->memory, " "); word != NULL; word = strtok(NULL, " ")) {
        cr_assert(count < ARGUMENTS_MAX);
        l->arguments[count++] = word;
    }
    l->cli.out = stdout;
    l->cli.err = open_memstream(&l->err, &l->err_size);
    l->code = cli_parse(&l->cli, count, l->arguments);
    (void)fclose(l->cli.err);
}

static void done(struct line *l)
{
    cli_parse_done(&l->cli);
    free(l->memory);
    free(l->err);
}

struct good_row {
    const char *text;
    const char *command;
    const char *operands; /* Joined by commas. */
    const char *option;   /* NULL: none to look at. */
    const char *value;    /* NULL: a flag. */
};

static const struct good_row good_rows[] = {
    {"topic create a", "topic create", "a", NULL, NULL},
    {"--version", "version", "", NULL, NULL},
    {"topic create a b -p 4", "topic create", "a,b", "partitions", "4"},
    {"topic create a -p4", "topic create", "a", "partitions", "4"},
    {"topic create a --partitions=4", "topic create", "a", "partitions", "4"},
    {"topic create a --partitions 4", "topic create", "a", "partitions", "4"},
    {"topic create --partitions 4 a", "topic create", "a", "partitions", "4"},
    {"topic -p 4 create a", "topic create", "a", "partitions", "4"},
    {"-p 4 topic create a", "topic create", "a", "partitions", "4"},
    {"-b h:1 topic list --json", "topic list", "", "brokers", "h:1"},
    {"--json topic list", "topic list", "", "json", NULL},
    {"topic create -c a=b x -c c=d", "topic create", "x", "config", "c=d"},
    {"consume t -e", "consume", "t", "exit", NULL},
    {"consume t -en5", "consume", "t", "count", "5"},
    {"consume t -o -5", "consume", "t", "offset", "-5"},
    {"consume t -o=-5", "consume", "t", "offset", "=-5"},
    {"consume t --offset=-5", "consume", "t", "offset", "-5"},
    {"consume -- -t", "consume", "-t", NULL, NULL},
    {"consume t u -g g", "consume", "t,u", "group", "g"},
    {"group describe g --json", "group describe", "g", "json", NULL},
    {"group seek g --by -90m -t t -p 0", "group seek", "g", "by", "-90m"},
    {"group seek -o @-1h g --execute", "group seek", "g", "execute", NULL},
    {"group delete a b", "group delete", "a,b", NULL, NULL},
    {"produce t -k=", "produce", "t", "key", "="},
    {"produce t --key=", "produce", "t", "key", ""},
    {"produce t -z zstd --acks -1", "produce", "t", "acks", "-1"},
    {"topic --help", "help", "topic", NULL, NULL},
    {"topic create -p x --help", "help", "topic,create", NULL, NULL},
    {"-h", "help", "", NULL, NULL},
    {"help topic create", "help", "topic,create", NULL, NULL},
    {"version", "version", "", NULL, NULL},
    {"start", "start", "", NULL, NULL},
};

static void join(const struct cli *cli, char text[TEXT_SIZE])
{
    size_t size = 0;
    text[0] = '\0';
    for (int i = 0; i < cli->operands_count; i++) {
        size += (size_t)snprintf(
            text + size, TEXT_SIZE - size, "%s%s", i > 0 ? "," : "", cli->operands[i]);
    }
}

Test(cli_parse, good_lines)
{
    for (size_t i = 0; i < sizeof(good_rows) / sizeof(good_rows[0]); i++) {
        const struct good_row *row = &good_rows[i];
        struct line l;
        parse(&l, row->text);
        cr_assert(eq(int, l.code, CLI_OK), "%s: %s", row->text, l.err);
        cr_assert(eq(str, (char *)l.cli.command->name, (char *)row->command), "%s", row->text);
        char operands[TEXT_SIZE];
        join(&l.cli, operands);
        cr_assert(eq(str, operands, (char *)row->operands), "%s", row->text);
        if (row->option != NULL) {
            cr_assert(cli_has(&l.cli, row->option), "%s", row->text);
        }
        if (row->value != NULL) {
            const char *value = cli_text(&l.cli, row->option, "(none)");
            cr_assert(eq(str, (char *)value, (char *)row->value), "%s", row->text);
        }
        done(&l);
    }
}

struct bad_row {
    const char *text;
    const char *err; /* The whole line. */
};

static const struct bad_row bad_rows[] = {
    {"", "a command is missing: see 'coreflume help'"},
    {"topc list", "unknown command 'topc', did you mean 'coreflume topic'?"},
    {"prduce x", "unknown command 'prduce', did you mean 'coreflume produce'?"},
    {"sart", "unknown command 'sart', did you mean 'coreflume start'?"},
    {"topic", "'topic' needs a verb: see 'coreflume topic --help'"},
    {"topic cre", "unknown command 'topic cre', did you mean 'coreflume topic create'?"},
    {"topic frobnicate", "unknown command 'topic frobnicate': see 'coreflume help topic'"},
    {"quota", "unknown command 'quota': see 'coreflume help'"},
    {"topic list --verbose",
     "unknown option '--verbose' of 'topic list': see 'coreflume help topic list'"},
    {"topic lst", "unknown command 'topic lst', did you mean 'coreflume topic list'?"},
    {"topic create", "'topic create' needs NAME...: coreflume topic create NAME..."},
    {"topic list x", "'x' is too much for 'topic list': coreflume topic list"},
    {"topic describe a b", "'b' is too much for 'topic describe': coreflume topic describe TOPIC"},
    {"topic list --jsn", "unknown option '--jsn' of 'topic list', did you mean '--json'?"},
    {"topic list -p 4", "unknown option '-p' of 'topic list': see 'coreflume help topic list'"},
    {"topic list -B h", "unknown option '-B' of 'topic list', did you mean '-b'?"},
    {"topic create a -p", "option '--partitions' needs a value: N"},
    {"topic create a --partitions", "option '--partitions' needs a value: N"},
    {"topic create a -p 0", "option '--partitions': '0' is not a number from 1 to 1000000"},
    {"topic create a -p 4x", "option '--partitions': '4x' is not a number from 1 to 1000000"},
    {"topic create a -p 99999999999999999999",
     "option '--partitions': '99999999999999999999' is not a number from 1 to 1000000"},
    {"topic create a -p 1 -p 2", "option '--partitions' stands there twice"},
    {"topic list --json=yes", "option '--json' takes no value"},
    {"produce t -z lzma", "option '--codec': 'lzma' is none of none|gzip|snappy|lz4|zstd"},
    {"produce t -z non", "option '--codec': 'non' is none of none|gzip|snappy|lz4|zstd"},
};

Test(cli_parse, bad_lines_get_one_line_each)
{
    for (size_t i = 0; i < sizeof(bad_rows) / sizeof(bad_rows[0]); i++) {
        const struct bad_row *row = &bad_rows[i];
        struct line l;
        parse(&l, row->text);
        cr_assert(eq(int, l.code, CLI_USAGE), "%s", row->text);
        char wanted[TEXT_SIZE];
        (void)snprintf(wanted, sizeof(wanted), "coreflume: %s\n", row->err);
        cr_assert(eq(str, l.err, wanted), "%s", row->text);
        done(&l);
    }
}

/* ---- the table itself ---- */

static void check_option(const struct cli_option *o)
{
    cr_assert(eq(int, o->kind == CLI_FLAG, o->value == NULL), "%s", o->name);
    cr_assert(o->help != NULL && o->help[0] != '\0', "%s", o->name);
    cr_assert(eq(int, o->kind == CLI_CHOICE, o->words != NULL), "%s", o->name);
    if (o->kind == CLI_NUMBER) {
        cr_assert(o->min < o->max, "%s", o->name);
    }
}

/* Rule 1 of cli_command.h, and what keeps help readable. */
Test(cli_parse, table_is_consistent)
{
    const struct cli_option *all[256] = {&CLI_OPTION_BROKERS, &CLI_OPTION_JSON, &CLI_OPTION_HELP};
    size_t count = 3;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const struct cli_command *c = &CLI_COMMANDS[i];
        cr_assert(c->operands != NULL && c->summary != NULL, "%s", c->name);
        cr_assert(c->operands_max == -1 || c->operands_max >= c->operands_min, "%s", c->name);
        for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++) {
            cr_assert(count < 256);
            all[count++] = o;
        }
    }
    for (size_t i = 0; i < count; i++) {
        check_option(all[i]);
        for (size_t j = 0; j < i; j++) {
            const bool is_same_letter = all[i]->letter != 0 && all[i]->letter == all[j]->letter;
            if (is_same_letter || strcmp(all[i]->name, all[j]->name) == 0) {
                cr_assert(eq(int, all[i]->kind == CLI_FLAG, all[j]->kind == CLI_FLAG),
                          "%s and %s",
                          all[i]->name,
                          all[j]->name);
            }
        }
    }
}

/* Help names every command and, for each, every option. */
Test(cli_parse, help_is_complete)
{
    char *text = NULL;
    size_t size = 0;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const struct cli_command *c = &CLI_COMMANDS[i];
        struct line l;
        char command_line[TEXT_SIZE];
        (void)snprintf(command_line, sizeof(command_line), "%s --help", c->name);
        parse(&l, command_line);
        l.cli.out = open_memstream(&text, &size);
        cr_assert(eq(int, l.cli.command->run(&l.cli), CLI_OK));
        (void)fclose(l.cli.out);
        cr_assert(strstr(text, c->summary + 1) != NULL, "%s", c->name);
        for (const struct cli_option *o = c->options; o != NULL && o->name != NULL; o++) {
            cr_assert(strstr(text, o->name) != NULL, "%s: %s", c->name, o->name);
            cr_assert(strstr(text, o->help) != NULL, "%s: %s", c->name, o->name);
        }
        free(text);
        done(&l);
    }
}

/* ---- what else is made of the table ---- */

/* What a command line prints; NULL if it fails. Freed by the caller. */
static char *output_of(const char *command_line)
{
    char *text = NULL;
    size_t size = 0;
    struct line l;
    parse(&l, command_line);
    l.cli.out = open_memstream(&text, &size);
    const int code = l.code == CLI_OK ? l.cli.command->run(&l.cli) : l.code;
    (void)fclose(l.cli.out);
    done(&l);
    if (code != CLI_OK) {
        free(text);
        return NULL;
    }
    return text;
}

struct script_row {
    const char *command_line;
    const char *command; /* How a command is named; %s. */
    const char *letter;  /* How an option's letter is; %c. */
    const char *name;    /* And its name; %s. Minus signs as they are, but of the manual's. */
};

static const struct script_row script_rows[] = {
    {"completion bash", "'%s') offered='", "-%c ", "--%s "},
    {"completion zsh", "'%s')\n            _arguments", "{-%c,", "--%s"},
    {"completion fish", "'__coreflume_is %s'", " -s %c ", " -l %s "},
    {"manual", ".SS coreflume %s", "\\fB\\-%c\\fR", "\\fB\\-\\-%s\\fR"},
};

/* A name as the manual writes it. */
static void escape_dashes(const char *text, char escaped[TEXT_SIZE])
{
    size_t size = 0;
    for (; *text != '\0' && size + 2 < TEXT_SIZE; text++) {
        if (*text == '-') {
            escaped[size++] = '\\';
        }
        escaped[size++] = *text;
    }
    escaped[size] = '\0';
}

static void
check_script(const struct script_row *row, const char *text, const struct cli_command *c)
{
    char wanted[TEXT_SIZE];
    (void)snprintf(wanted, sizeof(wanted), row->command, c->name);
    const char *section = strstr(text, wanted);
    cr_assert(section != NULL, "%s: %s", row->command_line, wanted);
    for (size_t i = 0; cli_option_at(c, i) != NULL; i++) {
        const struct cli_option *o = cli_option_at(c, i);
        if (o->letter != 0) {
            (void)snprintf(wanted, sizeof(wanted), row->letter, o->letter);
            cr_assert(strstr(section, wanted) != NULL, "%s: %s", row->command_line, wanted);
        }
        char name[TEXT_SIZE];
        (void)snprintf(name, sizeof(name), "%s", o->name);
        if (strcmp(row->command_line, "manual") == 0) {
            escape_dashes(o->name, name);
        }
        (void)snprintf(wanted, sizeof(wanted), row->name, name);
        cr_assert(strstr(section, wanted) != NULL, "%s: %s", row->command_line, wanted);
    }
}

/* The completion of each shell and the manual name every command and, behind it, every option. */
Test(cli_parse, scripts_and_manual_are_complete)
{
    for (size_t i = 0; i < sizeof(script_rows) / sizeof(script_rows[0]); i++) {
        char *text = output_of(script_rows[i].command_line);
        cr_assert(text != NULL, "%s", script_rows[i].command_line);
        for (size_t j = 0; j < CLI_COMMANDS_COUNT; j++) {
            check_script(&script_rows[i], text, &CLI_COMMANDS[j]);
        }
        free(text);
    }
    cr_assert(output_of("completion csh") == NULL);
}
