#include "cli/cli_parse.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_text.h"
#include "core/assert.h"
#include "core/edit_distance.h"

int cli_fail(struct cli *cli, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)fflush(cli->out);
    (void)fputs("coreflume: ", cli->err);
    cli_vput(cli->err, format, arguments);
    (void)fputc('\n', cli->err);
    va_end(arguments);
    return code;
}

/* ---- options of a command, the common ones included ---- */

enum {
    WORD_SIZE = 32, /* Longer than any word of a command. */
};

/* A letter is one character, a name any number of them. */
static bool
is_called(const struct cli_option *o, const char *name, size_t name_size, bool is_letter)
{
    if (is_letter) {
        return o->letter == name[0];
    }
    return strncmp(o->name, name, name_size) == 0 && o->name[name_size] == '\0';
}

static const struct cli_option *
find_option(const struct cli_command *command, const char *name, size_t name_size, bool is_letter)
{
    for (size_t i = 0;; i++) {
        const struct cli_option *o = cli_option_at(command, i);
        if (o == NULL || is_called(o, name, name_size, is_letter)) {
            return o;
        }
    }
}

/* Of any command: enough to know whether a value follows (rule 1 of cli_command.h). */
static const struct cli_option *find_anywhere(const char *name, size_t name_size, bool is_letter)
{
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const struct cli_option *o = find_option(&CLI_COMMANDS[i], name, name_size, is_letter);
        if (o != NULL) {
            return o;
        }
    }
    return NULL;
}

/* ---- words: the command line taken apart ---- */

/* One option as it stands there, or one operand. */
struct word {
    const char *text;  /* The operand, or the option's name behind its dashes. */
    size_t name_size;  /* Of an option. */
    const char *value; /* NULL: none. */
    bool is_option;
    bool is_letter;
    bool is_value_missing;
};

struct words {
    struct word *all;
    int count;
};

static void add_word(struct words *w, struct word word)
{
    w->all[w->count++] = word;
}

/* --name, --name=value, --name value. Returns how many arguments it took. */
static int read_long(struct words *w, int left, char **argv)
{
    const char *name = argv[0] + 2;
    struct word word = {.text = name, .name_size = strcspn(name, "="), .is_option = true};
    const struct cli_option *o = find_anywhere(name, word.name_size, false);
    int taken = 1;
    if (name[word.name_size] == '=') {
        word.value = name + word.name_size + 1;
    } else if (o != NULL && o->kind != CLI_FLAG) {
        word.is_value_missing = left < 2;
        word.value = left < 2 ? NULL : argv[1];
        taken = left < 2 ? 1 : 2;
    }
    add_word(w, word);
    return taken;
}

/* -p, -p4, -p 4, and flags together: -ej. */
static int read_letters(struct words *w, int left, char **argv)
{
    for (const char *letter = argv[0] + 1; *letter != '\0'; letter++) {
        struct word word = {.text = letter, .name_size = 1, .is_option = true, .is_letter = true};
        const struct cli_option *o = find_anywhere(letter, 1, true);
        if (o == NULL || o->kind == CLI_FLAG) {
            add_word(w, word);
            continue;
        }
        const bool is_attached = letter[1] != '\0';
        word.is_value_missing = !is_attached && left < 2;
        word.value = is_attached ? letter + 1 : left < 2 ? NULL : argv[1];
        add_word(w, word);
        return is_attached || left < 2 ? 1 : 2;
    }
    return 1;
}

static void read_words(struct words *w, int argc, char **argv)
{
    bool is_open = true; /* Options may still come: no "--" yet. */
    for (int i = 1; i < argc;) {
        const char *a = argv[i];
        if (is_open && strcmp(a, "--") == 0) {
            is_open = false;
            i++;
        } else if (is_open && strncmp(a, "--", 2) == 0) {
            i += read_long(w, argc - i, argv + i);
        } else if (is_open && a[0] == '-' && a[1] != '\0') {
            i += read_letters(w, argc - i, argv + i);
        } else {
            add_word(w, (struct word){.text = a});
            i++;
        }
    }
}

/* ---- the command ---- */

/* "topic create" is named by the words topic, create. Returns how many words it took; 0: another.
 */
static int matches(const struct cli_command *command, const struct cli *cli)
{
    const char *rest = command->name;
    for (int i = 0; i < cli->operands_count; i++) {
        const size_t size = strcspn(rest, " ");
        assert(cli->operands[i] != NULL);
        if (strlen(cli->operands[i]) != size || strncmp(cli->operands[i], rest, size) != 0) {
            return 0;
        }
        if (rest[size] == '\0') {
            return i + 1;
        }
        rest += size + 1;
    }
    return 0;
}

/* Names that begin with "topic ": then it is a group, and its verb is what is wrong. */
static bool is_group(const char *word)
{
    assert(word != NULL);
    const size_t size = strlen(word);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        if (strncmp(name, word, size) == 0 && name[size] == ' ') {
            return true;
        }
    }
    return false;
}

/* The first word of a command's name, which is a group or a command of its own. */
static void first_word(const char *name, char ret_word[WORD_SIZE])
{
    (void)snprintf(ret_word, WORD_SIZE, "%.*s", (int)strcspn(name, " "), name);
}

/* Near enough that it may have been meant: few slips, or the word's beginning. */
static bool is_meant(const char *wanted, const char *word)
{
    const size_t size = strlen(wanted);
    return edit_distance(wanted, word) <= size / 2 ||
           (size > 1 && strncmp(wanted, word, size) == 0);
}

/* The nearest first word; in a group the nearest verb. */
static int say_unknown_command(struct cli *cli)
{
    const char *first = cli->operands[0];
    const bool has_group = is_group(first);
    if (has_group && cli->operands_count == 1) {
        return cli_fail(
            cli, CLI_USAGE, "'%s' needs a verb: see 'coreflume %s --help'", first, first);
    }
    const char *wanted = has_group ? cli->operands[1] : first;
    const char *gap = has_group ? " " : "";
    const char *group = has_group ? first : "";
    char nearest[WORD_SIZE] = "";
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        char word[WORD_SIZE];
        first_word(name, word);
        if (has_group && strcmp(word, first) != 0) {
            continue;
        }
        const char *candidate = has_group ? name + strlen(first) + 1 : word;
        const size_t distance = edit_distance(wanted, candidate);
        if (distance < best && is_meant(wanted, candidate)) {
            best = distance;
            (void)snprintf(nearest, sizeof(nearest), "%s", candidate);
        }
    }
    if (best == SIZE_MAX) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "unknown command '%s%s%s': see 'coreflume help%s%s'",
                        group,
                        gap,
                        wanted,
                        gap,
                        group);
    }
    return cli_fail(cli,
                    CLI_USAGE,
                    "unknown command '%s%s%s', did you mean 'coreflume %s%s%s'?",
                    group,
                    gap,
                    wanted,
                    group,
                    gap,
                    nearest);
}

static int find_command(struct cli *cli)
{
    int best = 0;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const int taken = matches(&CLI_COMMANDS[i], cli);
        if (taken > best) {
            best = taken;
            cli->command = &CLI_COMMANDS[i];
        }
    }
    if (best == 0) {
        return say_unknown_command(cli);
    }
    cli->operands += best;
    cli->operands_count -= best;
    return CLI_OK;
}

/* ---- options of the command ---- */

/* Of a letter only the other case is near. */
static int say_unknown_letter(struct cli *cli, char letter)
{
    const char *name = cli->command->name;
    const char other = (char)(letter ^ 0x20);
    const bool is_letter = (other >= 'a' && other <= 'z') || (other >= 'A' && other <= 'Z');
    if (is_letter && find_option(cli->command, &other, 1, true) != NULL) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "unknown option '-%c' of '%s', did you mean '-%c'?",
                        letter,
                        name,
                        other);
    }
    return cli_fail(cli,
                    CLI_USAGE,
                    "unknown option '-%c' of '%s': see 'coreflume help %s'",
                    letter,
                    name,
                    name);
}

static int say_unknown_option(struct cli *cli, const struct word *word)
{
    if (word->is_letter) {
        return say_unknown_letter(cli, word->text[0]);
    }
    const char *nearest = NULL;
    size_t best = SIZE_MAX;
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), "%.*s", (int)word->name_size, word->text);
    for (size_t i = 0;; i++) {
        const struct cli_option *o = cli_option_at(cli->command, i);
        if (o == NULL) {
            break;
        }
        const size_t distance = edit_distance(wanted, o->name);
        if (distance < best && is_meant(wanted, o->name)) {
            best = distance;
            nearest = o->name;
        }
    }
    const char *name = cli->command->name;
    if (nearest == NULL) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "unknown option '--%s' of '%s': see 'coreflume help %s'",
                        wanted,
                        name,
                        name);
    }
    return cli_fail(cli,
                    CLI_USAGE,
                    "unknown option '--%s' of '%s', did you mean '--%s'?",
                    wanted,
                    name,
                    nearest);
}

static bool is_word(const char *words, const char *text)
{
    const size_t size = strlen(text);
    for (const char *w = words;; w++) {
        const size_t word_size = strcspn(w, "|");
        if (word_size == size && strncmp(w, text, size) == 0) {
            return true;
        }
        w += word_size;
        if (*w == '\0') {
            return false;
        }
    }
}

bool cli_parse_number(const char *text, int64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    const long long number = strtoll(text, &end, 10);
    const bool has_digits =
        text[0] == '-' ? text[1] >= '0' && text[1] <= '9' : text[0] >= '0' && text[0] <= '9';
    if (errno != 0 || !has_digits || *end != '\0') {
        return false;
    }
    *ret_number = number;
    return true;
}

static int check_value(struct cli *cli, const struct cli_option *o, const char *text)
{
    int64_t number = 0;
    switch (o->kind) {
    case CLI_NUMBER:
        if (!cli_parse_number(text, &number) || number < o->min || number > o->max) {
            return cli_fail(cli,
                            CLI_USAGE,
                            "option '--%s': '%s' is not a number from %lld to %lld",
                            o->name,
                            text,
                            (long long)o->min,
                            (long long)o->max);
        }
        return CLI_OK;
    case CLI_CHOICE:
        if (!is_word(o->words, text)) {
            return cli_fail(
                cli, CLI_USAGE, "option '--%s': '%s' is none of %s", o->name, text, o->words);
        }
        return CLI_OK;
    case CLI_FLAG:
    case CLI_TEXT:
        break;
    }
    return CLI_OK;
}

static int take_option(struct cli *cli, const struct word *word)
{
    const struct cli_option *o =
        find_option(cli->command, word->text, word->name_size, word->is_letter);
    if (o == NULL) {
        return say_unknown_option(cli, word);
    }
    if (word->is_value_missing) {
        return cli_fail(cli, CLI_USAGE, "option '--%s' needs a value: %s", o->name, o->value);
    }
    if (o->kind == CLI_FLAG && word->value != NULL) {
        return cli_fail(cli, CLI_USAGE, "option '--%s' takes no value", o->name);
    }
    if (!o->is_repeatable && cli_has(cli, o->name)) {
        return cli_fail(cli, CLI_USAGE, "option '--%s' stands there twice", o->name);
    }
    cli->values[cli->values_count++] = (struct cli_value){.option = o, .text = word->value};
    if (o->kind == CLI_FLAG) {
        return CLI_OK;
    }
    assert(word->value != NULL);
    return check_value(cli, o, word->value);
}

static int check_operands(struct cli *cli)
{
    const struct cli_command *command = cli->command;
    const char *gap = command->operands[0] != '\0' ? " " : "";
    if (cli->operands_count < command->operands_min) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "'%s' needs %s: coreflume %s%s%s",
                        command->name,
                        command->operands,
                        command->name,
                        gap,
                        command->operands);
    }
    if (command->operands_max >= 0 && cli->operands_count > command->operands_max) {
        return cli_fail(cli,
                        CLI_USAGE,
                        "'%s' is too much for '%s': coreflume %s%s%s",
                        cli->operands[command->operands_max],
                        command->name,
                        command->name,
                        gap,
                        command->operands);
    }
    return CLI_OK;
}

static const struct cli_command *help_command(void)
{
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        if (CLI_COMMANDS[i].run == cli_help) {
            return &CLI_COMMANDS[i];
        }
    }
    assert(false && "the table has help");
    return NULL;
}

/* "coreflume --version", as of most programs, is the command. */
static bool wants_version(const struct words *w)
{
    return w->count == 1 && w->all[0].is_option && !w->all[0].is_letter &&
           strcmp(w->all[0].text, "version") == 0;
}

/* --help, -h: then all that counts is which command the words name. */
static bool wants_help(const struct words *w)
{
    for (int i = 0; i < w->count; i++) {
        const struct word *word = &w->all[i];
        if (word->is_option &&
            is_called(&CLI_OPTION_HELP, word->text, word->name_size, word->is_letter)) {
            return true;
        }
    }
    return false;
}

int cli_parse(struct cli *cli, int argc, char **argv)
{
    /* Letters that stand together are a word each. */
    size_t words_max = 0;
    for (int i = 1; i < argc; i++) {
        words_max += strlen(argv[i]) + 1;
    }
    struct words words = {.all = calloc(words_max + 1, sizeof(*words.all))};
    cli->operands_memory = calloc((size_t)argc + 1, sizeof(*cli->operands_memory));
    cli->values = calloc(words_max + 1, sizeof(*cli->values));
    cli->operands = cli->operands_memory;
    if (words.all == NULL || cli->operands_memory == NULL || cli->values == NULL) {
        free(words.all);
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    read_words(&words, argc, argv);
    for (int i = 0; i < words.count; i++) {
        if (!words.all[i].is_option) {
            cli->operands[cli->operands_count++] = words.all[i].text;
        }
    }
    if (wants_help(&words)) {
        cli->command = help_command();
        free(words.all);
        return CLI_OK;
    }
    if (wants_version(&words)) {
        words.all[0].is_option = false;
        cli->operands[cli->operands_count++] = words.all[0].text;
    }
    int code = cli->operands_count == 0
                   ? cli_fail(cli, CLI_USAGE, "a command is missing: see 'coreflume help'")
                   : find_command(cli);
    for (int i = 0; code == CLI_OK && i < words.count; i++) {
        if (words.all[i].is_option) {
            code = take_option(cli, &words.all[i]);
        }
    }
    free(words.all);
    return code == CLI_OK ? check_operands(cli) : code;
}

void cli_parse_done(struct cli *cli)
{
    free(cli->operands_memory);
    free(cli->values);
}

static const struct cli_value *find_value(const struct cli *cli, const char *name)
{
    for (int i = cli->values_count - 1; i >= 0; i--) {
        if (strcmp(cli->values[i].option->name, name) == 0) {
            return &cli->values[i];
        }
    }
    return NULL;
}

const char *cli_text(const struct cli *cli, const char *name, const char *fallback)
{
    const struct cli_value *v = find_value(cli, name);
    return v == NULL ? fallback : v->text;
}

int64_t cli_number(const struct cli *cli, const char *name, int64_t fallback)
{
    const struct cli_value *v = find_value(cli, name);
    if (v == NULL) {
        return fallback;
    }
    int64_t number = 0;
    const bool is_number = cli_parse_number(v->text, &number);
    assert(is_number);
    return number;
}

bool cli_has(const struct cli *cli, const char *name)
{
    return find_value(cli, name) != NULL;
}
