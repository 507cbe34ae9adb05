/* What the completion scripts of all shells are made of. Private to cli_completion*.c.
 *
 * Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/cli_command.h"

enum cli_path {
    CLI_PATH_NONE,
    CLI_PATH_FILE,
    CLI_PATH_DIR,
};

/* The shells that `completion` knows. */
extern const char CLI_SHELLS[]; /* "bash|zsh|fish" */

/* Whether a value or operand of this name is a path, an existing topic, ... */
enum cli_path cli_path_of(const char *name);
bool cli_is_called(const char *operands, const char *word);

/* Text inside of single quotes, whose own quotes and the characters of special get escape before
 * them. */
void cli_print_escaped(FILE *out, const char *text, const char *special, const char *escape);

/* "a|b" as "a b". */
void cli_print_words(FILE *out, const char *words);

/* -p|--partitions|... : each letter and name that takes a value, once; in any command (rule 1 of
 * cli_command.h). separator: "|" or " ". */
void cli_print_value_options(FILE *out, const char *separator);

/* The first words of all commands, or the verbs of a group; each once. group NULL: first words. */
void cli_print_verbs(FILE *out, const char *group);

void cli_completion_zsh(FILE *out);
void cli_completion_fish(FILE *out);
