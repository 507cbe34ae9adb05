/* What the completion scripts of all shells are made of. Private to cli_completion*.c.
 *
 * Pure; any thread.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "cli/cli_command.h"

/* What is offered at one place of a command line: for the value of an option, or for operands. */
enum cli_offer_kind {
    CLI_OFFER_NOTHING,
    CLI_OFFER_FILES,
    CLI_OFFER_DIRS,
    CLI_OFFER_NAMES, /* That exist: the script asks a broker. */
    CLI_OFFER_WORDS,
    CLI_OFFER_COMMANDS, /* First words of them. */
};

struct cli_offer {
    enum cli_offer_kind kind;
    const char *words; /* "a|b", of CLI_OFFER_WORDS; of names, of what: "topic", "group". */
};

struct cli_offer cli_offer_of_option(const struct cli_option *o);
struct cli_offer cli_offer_of_operands(const struct cli_command *command);

/* True if what is offered is a list known now, which it prints: "a b". */
bool cli_is_list(struct cli_offer offer);
void cli_print_list(FILE *out, struct cli_offer offer);

/* Text inside of single quotes, whose own quotes and the characters of special get escape before
 * them. */
void cli_print_escaped(FILE *out, const char *text, const char *special, const char *escape);

/* -p|--partitions|... : each letter and name that takes a value, once; in any command (rule 1 of
 * cli_command.h). separator: "|" or " ". */
void cli_print_value_options(FILE *out, const char *separator);

/* The first words of all commands, or the verbs of a group; each once. group NULL: first words. */
void cli_print_verbs(FILE *out, const char *group);

/* Calls on_group for the first word of each command that has another behind it, once each. */
void cli_each_group(FILE *out, void (*on_group)(FILE *out, const char *group));

void cli_completion_zsh(FILE *out);
void cli_completion_fish(FILE *out);
