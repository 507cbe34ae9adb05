/* Help, from the table. */
#include <ctype.h>
#include <string.h>

#include "cli/cli_command.h"
#include "cli/cli_parse.h"

enum {
    LEFT_WIDTH = 30,
    LEFT_SIZE = 96,
    DETAILS_WIDTH = 80,
};

static void print_option(FILE *out, const struct cli_command *command, const struct cli_option *o)
{
    (void)command;
    char letter[] = "    ";
    if (o->letter != 0) {
        (void)snprintf(letter, sizeof(letter), "-%c, ", o->letter);
    }
    char left[LEFT_SIZE];
    (void)snprintf(left,
                   sizeof(left),
                   "%s--%s%s%s%s",
                   letter,
                   o->name,
                   o->value != NULL ? " " : "",
                   o->value != NULL ? o->value : "",
                   o->is_repeatable ? " ..." : "");
    (void)fprintf(out, "  %-*s %s\n", LEFT_WIDTH, left, o->help);
}

/* Words of one paragraph, from text to a line that is empty or begins with a space. Returns where
 * that is. */
static const char *print_filled(FILE *out, const char *text)
{
    size_t width = 0;
    while (*text != '\0' && *text != '\n' && *text != ' ') {
        const size_t size = strcspn(text, " \n");
        const bool is_broken = width > 0 && width + 1 + size > DETAILS_WIDTH;
        if (width > 0) {
            (void)fputc(is_broken ? '\n' : ' ', out);
        }
        (void)fprintf(out, "%.*s", (int)size, text);
        width = is_broken || width == 0 ? size : width + 1 + size;
        text += size;
        text += *text != '\0';
    }
    (void)fputc('\n', out);
    return text;
}

static void print_details(FILE *out, const char *text)
{
    while (*text != '\0') {
        if (*text == '\n' || *text == ' ') {
            const size_t size = strcspn(text, "\n");
            (void)fprintf(out, "%.*s\n", (int)size, text);
            text += size + (text[size] == '\n');
        } else {
            text = print_filled(out, text);
        }
    }
}

static void print_command(FILE *out, const struct cli_command *command)
{
    (void)fprintf(out,
                  "usage: coreflume %s%s%s [OPTIONS]\n\n%c%s.\n\n",
                  command->name,
                  command->operands[0] != '\0' ? " " : "",
                  command->operands,
                  toupper((unsigned char)command->summary[0]),
                  command->summary + 1);
    cli_each_option(out, command, print_option);
    if (command->details != NULL) {
        (void)fputc('\n', out);
        print_details(out, command->details);
    }
}

/* All commands whose name starts with these words. */
static int print_list(FILE *out, const char *start)
{
    const size_t size = strlen(start);
    int count = 0;
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const struct cli_command *command = &CLI_COMMANDS[i];
        if (strncmp(command->name, start, size) != 0 || (size > 0 && command->name[size] != ' ')) {
            continue;
        }
        char left[LEFT_SIZE];
        (void)snprintf(left, sizeof(left), "%s %s", command->name, command->operands);
        (void)fprintf(out, "  %-*s %s\n", LEFT_WIDTH, left, command->summary);
        count++;
    }
    return count;
}

static const struct cli_command *find_exact(const char *name)
{
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        if (strcmp(CLI_COMMANDS[i].name, name) == 0) {
            return &CLI_COMMANDS[i];
        }
    }
    return NULL;
}

/* operands: the words of the command, and with --help perhaps more behind them. */
int cli_help(struct cli *cli)
{
    char name[LEFT_SIZE];
    for (int words = cli->operands_count < 2 ? cli->operands_count : 2; words > 0; words--) {
        (void)snprintf(name,
                       sizeof(name),
                       "%s%s%s",
                       cli->operands[0],
                       words == 2 ? " " : "",
                       words == 2 ? cli->operands[1] : "");
        const struct cli_command *command = find_exact(name);
        if (command != NULL) {
            print_command(cli->out, command);
            return CLI_OK;
        }
        if (words == 1 && print_list(cli->out, name) > 0) {
            return CLI_OK;
        }
    }
    if (cli->operands_count > 0) {
        return cli_fail(cli, CLI_USAGE, "no command '%s': see 'coreflume help'", cli->operands[0]);
    }
    (void)fprintf(cli->out, "coreflume: %s\n\nusage: coreflume COMMAND [OPTIONS]\n\n", CLI_ABOUT);
    (void)print_list(cli->out, "");
    (void)fprintf(cli->out, "\n%s'coreflume help COMMAND' tells more.\n", CLI_ABOUT_OPTIONS);
    return CLI_OK;
}
