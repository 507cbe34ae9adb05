/* coreflume completion zsh. */
#include <string.h>

#include "cli/cli_completion.h"

static const char head[] =
    "#compdef coreflume\n"
    "# zsh completion of coreflume; made by: coreflume completion zsh\n"
    "\n"
    "_coreflume_topics() {\n"
    "    local -a topics\n"
    "    topics=(${(f)\"$(timeout 1 coreflume topic list ${brokers:+-b} $brokers 2>/dev/null |\n"
    "        sed -n '2,$ s/ .*//p')\"})\n"
    "    compadd -a topics\n"
    "}\n"
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

/* '(-p --partitions)'{-p,--partitions}'[help]:N:action' */
static void print_option(FILE *out, const struct cli_option *o)
{
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
        const enum cli_path path = cli_path_of(o->value);
        if (o->kind == CLI_CHOICE) {
            (void)fputc('(', out);
            cli_print_words(out, o->words);
            (void)fputc(')', out);
        } else if (path != CLI_PATH_NONE) {
            (void)fputs(path == CLI_PATH_FILE ? "_files" : "_files -/", out);
        }
    }
    (void)fputc('\'', out);
}

static void print_command(FILE *out, const struct cli_command *command)
{
    (void)fprintf(out, "        '%s')\n            _arguments -s", command->name);
    for (size_t i = 0; cli_option_at(command, i) != NULL; i++) {
        print_option(out, cli_option_at(command, i));
    }
    (void)fputs(" \\\n                '*: :", out);
    if (cli_is_called(command->operands, "TOPIC")) {
        (void)fputs("_coreflume_topics", out);
    } else if (cli_path_of(command->operands) != CLI_PATH_NONE) {
        (void)fputs("_files", out);
    } else if (cli_is_called(command->operands, "SHELL")) {
        (void)fputc('(', out);
        cli_print_words(out, CLI_SHELLS);
        (void)fputc(')', out);
    } else if (cli_is_called(command->operands, "COMMAND")) {
        (void)fputc('(', out);
        cli_print_verbs(out, NULL);
        (void)fputc(')', out);
    }
    (void)fputs("'\n            ;;\n", out);
}

/* The words that may come next where no command is complete. */
static void print_verbs(FILE *out)
{
    (void)fputs("        *)\n            case $operands[1] in\n", out);
    const char *group = "";
    size_t group_size = 0;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const char *name = CLI_COMMANDS[i].name;
        const size_t size = strcspn(name, " ");
        if (name[size] == '\0') {
            continue;
        }
        if (size != group_size || strncmp(name, group, size) != 0) {
            group = name;
            group_size = size;
            (void)fprintf(out, "                %.*s)", (int)size, name);
            (void)fputs(" commands=(", out);
            for (size_t j = i; j < CLI_COMMANDS_COUNT; j++) {
                const struct cli_command *c = &CLI_COMMANDS[j];
                if (strncmp(c->name, name, size + 1) == 0) {
                    (void)fprintf(out, " '%s:", c->name + size + 1);
                    print_text(out, c->summary);
                    (void)fputc('\'', out);
                }
            }
            (void)fputs(") ;;\n", out);
        }
    }
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
