/* coreflume completion zsh. */
#include <string.h>

#include "cli/cli_completion.h"

static const char head[] =
    "#compdef coreflume\n"
    "# zsh completion of coreflume; made by: coreflume completion zsh\n"
    "\n"
    "_coreflume_names() {\n"
    "    local -a names\n"
    "    names=(${(f)\"$(timeout 1 coreflume $1 list ${brokers:+-b} $brokers 2>/dev/null |\n"
    "        sed -n '2,$ s/ .*//p')\"})\n"
    "    compadd -a names\n"
    "}\n"
    "_coreflume_topics() { _coreflume_names topic }\n"
    "_coreflume_groups() { _coreflume_names group }\n"
    "\n"
    "_coreflume() {\n"
    "    local -a operands commands\n"
    "    local command= brokers=$COREFLUME_BROKERS\n"
    "    local -i i\n"
    "    for ((i = 2; i < CURRENT; i++)); do\n"
    "        case $words[i] in\n"
    "            -b|--brokers) brokers=$words[++i] ;;\n"
    "            ";

static const char behind_values[] = ") ((++i)) ;;\n"
                                    "            -*) ;;\n"
                                    "            *) operands+=($words[i]) ;;\n"
                                    "        esac\n"
                                    "    done\n"
                                    "    case \"$operands[1] $operands[2]\" in\n";

/* Inside of '...': what _arguments takes for its own is escaped; no text has a single quote. */
static void print_text(FILE *out, const char *text)
{
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '\'') {
            (void)fputs("'\\'", out);
        } else if (strchr("[]:\\", *c) != NULL) {
            (void)fputc('\\', out);
        }
        (void)fputc(*c, out);
    }
}

/* What _arguments calls an action: where the words come from. */
static void print_action(FILE *out, struct cli_offer offer)
{
    if (cli_is_list(offer)) {
        (void)fputc('(', out);
        cli_print_list(out, offer);
        (void)fputc(')', out);
    } else if (offer.kind == CLI_OFFER_NAMES) {
        (void)fprintf(out, "_coreflume_%ss", offer.words);
    } else if (offer.kind != CLI_OFFER_NOTHING) {
        (void)fputs(offer.kind == CLI_OFFER_FILES ? "_files" : "_files -/", out);
    }
}

/* '(-p --partitions)'{-p,--partitions}'[help]:N:action' */
static void print_option(FILE *out, const struct cli_command *command, const struct cli_option *o)
{
    (void)command;
    (void)fputs(" \\\n                ", out);
    if (o->is_repeatable) {
        (void)fputs("'*'", out);
    } else if (o->letter != 0) {
        (void)fprintf(out, "'(-%c --%s)'", o->letter, o->name);
    }
    if (o->letter != 0) {
        (void)fprintf(out, "{-%c,--%s}'[", o->letter, o->name);
    } else {
        (void)fprintf(out, "--%s'[", o->name);
    }
    print_text(out, o->help);
    (void)fputc(']', out);
    if (o->kind != CLI_FLAG) {
        (void)fputc(':', out);
        print_text(out, o->value);
        (void)fputc(':', out);
        print_action(out, cli_offer_of_option(o));
    }
    (void)fputc('\'', out);
}

static void print_command(FILE *out, const struct cli_command *command)
{
    (void)fprintf(out, "        '%s')\n            _arguments -s", command->name);
    cli_each_option(out, command, print_option);
    (void)fputs(" \\\n                '*: :", out);
    print_action(out, cli_offer_of_operands(command));
    (void)fputs("'\n            ;;\n", out);
}

/* group) commands=( 'verb:what it does' ... ) ;; */
static void print_group(FILE *out, const char *group)
{
    const size_t size = strlen(group);
    (void)fprintf(out, "                %s) commands=(", group);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const struct cli_command *c = &CLI_COMMANDS[i];
        if (strncmp(c->name, group, size) == 0 && c->name[size] == ' ') {
            (void)fprintf(out, " '%s:", c->name + size + 1);
            print_text(out, c->summary);
            (void)fputc('\'', out);
        }
    }
    (void)fputs(") ;;\n", out);
}

/* The words that may come next where no command is complete. */
static void print_verbs(FILE *out)
{
    (void)fputs("        *)\n            case $operands[1] in\n", out);
    cli_each_group(out, print_group);
    (void)fputs("                '') commands=(", out);
    cli_print_verbs(out, NULL);
    (void)fputs(") ;;\n"
                "            esac\n"
                "            _describe command commands\n"
                "            ;;\n",
                out);
}

void cli_completion_zsh(FILE *out)
{
    (void)fputs(head, out);
    cli_print_value_options(out, "|");
    (void)fputs(behind_values, out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        (void)fprintf(out,
                      "        '%s'%s) command='%s' ;;\n",
                      name,
                      strchr(name, ' ') != NULL ? "" : "' '*",
                      name);
    }
    (void)fputs("    esac\n    case $command in\n", out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        print_command(out, &CLI_COMMANDS[i]);
    }
    print_verbs(out);
    (void)fputs("    esac\n"
                "}\n"
                "\n"
                "if [[ $funcstack[1] == _coreflume ]]; then\n"
                "    _coreflume \"$@\"\n"
                "else\n"
                "    compdef _coreflume coreflume\n"
                "fi\n",
                out);
}
