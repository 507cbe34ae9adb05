/* coreflume completion: scripts that complete command lines, from the table. Here bash's, and what
 * all shells share. */
#include "cli/cli_completion.h"

#include <string.h>

enum {
    GROUP_SIZE = 64, /* Longer than any word of a command. */
};

static const char shells[] = "bash|zsh|fish";

/* ---- what all shells share ---- */

/* Names of the table that say what they stand for (cli_command.h). */
static struct cli_offer offer_of(const char *name)
{
    static const struct {
        const char *word;
        struct cli_offer offer;
    } rows[] = {
        {"FILE", {.kind = CLI_OFFER_FILES}},
        {"DIR", {.kind = CLI_OFFER_DIRS}},
        {"TOPIC", {.kind = CLI_OFFER_NAMES, .words = "topic"}},
        {"GROUP", {.kind = CLI_OFFER_NAMES, .words = "group"}},
        {"COMMAND", {.kind = CLI_OFFER_COMMANDS}},
        {"SHELL", {.kind = CLI_OFFER_WORDS, .words = shells}},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (strstr(name, rows[i].word) != NULL) {
            return rows[i].offer;
        }
    }
    return (struct cli_offer){.kind = CLI_OFFER_NOTHING};
}

struct cli_offer cli_offer_of_option(const struct cli_option *o)
{
    if (o->kind == CLI_CHOICE) {
        return (struct cli_offer){.kind = CLI_OFFER_WORDS, .words = o->words};
    }
    return offer_of(o->value == NULL ? "" : o->value);
}

struct cli_offer cli_offer_of_operands(const struct cli_command *command)
{
    return offer_of(command->operands);
}

bool cli_is_list(struct cli_offer offer)
{
    return offer.kind == CLI_OFFER_WORDS || offer.kind == CLI_OFFER_COMMANDS;
}

void cli_print_list(FILE *out, struct cli_offer offer)
{
    if (offer.kind == CLI_OFFER_COMMANDS) {
        cli_print_verbs(out, NULL);
        return;
    }
    for (const char *c = offer.words; *c != '\0'; c++) {
        (void)fputc(*c == '|' ? ' ' : *c, out);
    }
}

void cli_print_escaped(FILE *out, const char *text, const char *special, const char *escape)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (strchr(special, *c) != NULL) {
            (void)fputs(escape, out);
        }
        (void)fputc(*c, out);
    }
}

/* Options stand in many commands; true for the first that has this letter, or this name. */
static bool is_first(size_t command, size_t option, bool is_letter)
{
    const struct cli_option *o = cli_option_at(&CLI_COMMANDS[command], option);
    for (size_t i = 0; i <= command; i++) {
        for (size_t j = 0; i < command || j < option; j++) {
            const struct cli_option *other = cli_option_at(&CLI_COMMANDS[i], j);
            if (other == NULL) {
                break;
            }
            if (is_letter ? other->letter == o->letter : strcmp(other->name, o->name) == 0) {
                return false;
            }
        }
    }
    return true;
}

void cli_print_value_options(FILE *out, const char *separator)
{
    const char *before = "";
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        for (size_t j = 0;; j++) {
            const struct cli_option *o = cli_option_at(&CLI_COMMANDS[i], j);
            if (o == NULL) {
                break;
            }
            if (o->kind != CLI_FLAG && o->letter != 0 && is_first(i, j, true)) {
                (void)fprintf(out, "%s-%c", before, o->letter);
                before = separator;
            }
            if (o->kind != CLI_FLAG && is_first(i, j, false)) {
                (void)fprintf(out, "%s--%s", before, o->name);
                before = separator;
            }
        }
    }
}

void cli_print_verbs(FILE *out, const char *group)
{
    const size_t group_size = group == NULL ? 0 : strlen(group) + 1;
    const char *previous = "";
    size_t previous_size = 0;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        if (group != NULL &&
            (strncmp(name, group, group_size - 1) != 0 || name[group_size - 1] != ' ')) {
            continue;
        }
        const char *word = name + group_size;
        const size_t size = strcspn(word, " ");
        if (size != previous_size || strncmp(word, previous, size) != 0) {
            (void)fprintf(out, "%s%.*s", previous_size > 0 ? " " : "", (int)size, word);
            previous = word;
            previous_size = size;
        }
    }
}

void cli_each_group(FILE *out, void (*on_group)(FILE *out, const char *group))
{
    char group[GROUP_SIZE] = "";
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        const size_t size = strcspn(name, " ");
        if (name[size] == '\0' || (strlen(group) == size && strncmp(name, group, size) == 0)) {
            continue;
        }
        (void)snprintf(group, sizeof(group), "%.*s", (int)size, name);
        on_group(out, group);
    }
}

/* ---- bash ---- */

static const char bash_head[] =
    "# bash completion of coreflume; made by: coreflume completion bash\n"
    "\n"
    "_coreflume_names() {\n"
    "    timeout 1 coreflume $1 list ${2:+-b \"$2\"} 2>/dev/null | sed -n '2,$ s/ .*//p'\n"
    "}\n"
    "\n"
    "_coreflume() {\n"
    "    local -a words=() operands=()\n"
    "    local word glue= cur prev= brokers=${COREFLUME_BROKERS-} command= offered=\n"
    "    local -i last=-1 i\n"
    "    COMPREPLY=()\n"
    "    # '=' and ':' break words of bash, but not of ours.\n"
    "    for word in \"${COMP_WORDS[@]:1:COMP_CWORD}\"; do\n"
    "        if [[ $last -ge 0 && ( $word == [=:] || -n $glue ) ]]; then\n"
    "            words[last]+=$word\n"
    "        else\n"
    "            words[++last]=$word\n"
    "        fi\n"
    "        glue=\n"
    "        [[ $word == [=:] ]] && glue=1\n"
    "    done\n"
    "    cur=${words[last]-}\n"
    "    if [[ $cur == --*=* ]]; then\n"
    "        prev=${cur%%=*} cur=${cur#*=}\n"
    "    elif [[ $last -gt 0 ]]; then\n"
    "        prev=${words[last - 1]}\n"
    "    fi\n"
    "    for ((i = 0; i < last; i++)); do\n"
    "        case ${words[i]} in\n"
    "            -b | --brokers) brokers=${words[++i]} ;;\n"
    "            ";

static const char bash_operands[] = ") ((++i)) ;;\n"
                                    "            -*) ;;\n"
                                    "            *) operands+=(\"${words[i]}\") ;;\n"
                                    "        esac\n"
                                    "    done\n"
                                    "    case \"${operands[0]-} ${operands[1]-}\" in\n";

static const char bash_tail[] = "    COMPREPLY=($(compgen -W \"$offered\" -- \"$cur\"))\n"
                                "}\n"
                                "\n"
                                "complete -F _coreflume coreflume\n";

static void print_compgen(FILE *out, struct cli_offer offer)
{
    if (offer.kind == CLI_OFFER_NAMES) {
        (void)fprintf(
            out, "offered=$(_coreflume_names %s \"$brokers\")\n            ", offer.words);
        (void)fputs("COMPREPLY=($(compgen -W \"$offered\" -- \"$cur\")); return ;;\n", out);
        return;
    }
    (void)fputs("COMPREPLY=($(compgen ", out);
    if (cli_is_list(offer)) {
        (void)fputs("-W '", out);
        cli_print_list(out, offer);
        (void)fputc('\'', out);
    } else {
        (void)fputs(offer.kind == CLI_OFFER_FILES ? "-f" : "-d", out);
    }
    (void)fputs(" -- \"$cur\")); return ;;\n", out);
}

static void
print_bash_value(FILE *out, const struct cli_command *command, const struct cli_option *o)
{
    const struct cli_offer offer = cli_offer_of_option(o);
    if (offer.kind == CLI_OFFER_NOTHING) {
        return;
    }
    (void)fputs("        ", out);
    if (o->letter != 0) {
        (void)fprintf(out, "'%s:-%c' | ", command->name, o->letter);
    }
    (void)fprintf(out, "'%s:--%s') ", command->name, o->name);
    print_compgen(out, offer);
}

static void
print_bash_option(FILE *out, const struct cli_command *command, const struct cli_option *o)
{
    (void)command;
    if (o->letter != 0) {
        (void)fprintf(out, "-%c ", o->letter);
    }
    (void)fprintf(out, "--%s ", o->name);
}

static void print_bash_operands(FILE *out, const struct cli_command *command)
{
    const struct cli_offer offer = cli_offer_of_operands(command);
    (void)fprintf(out, "            '%s') ", command->name);
    if (offer.kind == CLI_OFFER_NOTHING) {
        (void)fputs(";;\n", out);
    } else {
        print_compgen(out, offer);
    }
}

static void print_bash_group(FILE *out, const char *group)
{
    (void)fprintf(out, "                    %s) offered='", group);
    cli_print_verbs(out, group);
    (void)fputs("' ;;\n", out);
}

/* No command yet: the first words; behind one of a group its verbs. */
static void print_bash_verbs(FILE *out)
{
    (void)fputs("            *)\n"
                "                case ${operands[0]-} in\n",
                out);
    (void)fputs("                    '') offered='", out);
    cli_print_verbs(out, NULL);
    (void)fputs("' ;;\n", out);
    cli_each_group(out, print_bash_group);
    (void)fputs("                esac\n"
                "                ;;\n",
                out);
}

static void print_bash(FILE *out)
{
    (void)fputs(bash_head, out);
    cli_print_value_options(out, " | ");
    (void)fputs(bash_operands, out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        (void)fprintf(out,
                      "        '%s'%s) command='%s' ;;\n",
                      name,
                      strchr(name, ' ') != NULL ? "" : "' '*",
                      name);
    }
    (void)fputs("    esac\n    case $command:$prev in\n", out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        cli_each_option(out, &CLI_COMMANDS[i], print_bash_value);
    }
    (void)fputs("    esac\n    case $prev in\n        ", out);
    cli_print_value_options(out, " | ");
    (void)fputs(") return ;;\n    esac\n    if [[ $cur == -* ]]; then\n        case $command in\n",
                out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        (void)fprintf(out, "            '%s') offered='", CLI_COMMANDS[i].name);
        cli_each_option(out, &CLI_COMMANDS[i], print_bash_option);
        (void)fputs("' ;;\n", out);
    }
    (void)fputs(
        "            *) offered=--help ;;\n        esac\n    else\n        case $command in\n",
        out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        print_bash_operands(out, &CLI_COMMANDS[i]);
    }
    print_bash_verbs(out);
    (void)fputs("        esac\n    fi\n", out);
    (void)fputs(bash_tail, out);
}

int cli_completion(struct cli *cli)
{
    const char *shell = cli->operands[0];
    if (strcmp(shell, "bash") == 0) {
        print_bash(cli->out);
    } else if (strcmp(shell, "zsh") == 0) {
        cli_completion_zsh(cli->out);
    } else if (strcmp(shell, "fish") == 0) {
        cli_completion_fish(cli->out);
    } else {
        return cli_fail(cli, CLI_USAGE, "'%s' is none of %s", shell, shells);
    }
    return CLI_OK;
}
