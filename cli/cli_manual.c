/* coreflume manual: the manual page, from the table, as man takes it. */
#include <ctype.h>
#include <string.h>

#include "cli/cli_command.h"

/* Text of the table as roff means it: its escapes are none of ours, and neither is a point or a
 * quote at the start of a line. */
static void print_part(FILE *out, const char *text, size_t size)
{
    bool is_line_start = true;
    for (const char *c = text; c < text + size; c++) {
        if (is_line_start && (*c == '.' || *c == '\'')) {
            (void)fputs("\\&", out);
        }
        if (*c == '\\') {
            (void)fputs("\\e", out);
        } else if (*c == '-') {
            (void)fputs("\\-", out);
        } else if (*c == '\'') {
            (void)fputs("\\(aq", out);
        } else {
            (void)fputc(*c, out);
        }
        is_line_start = *c == '\n';
    }
}

static void print_text(FILE *out, const char *text)
{
    print_part(out, text, strlen(text));
}

static void print_option(FILE *out, const struct cli_command *command, const struct cli_option *o)
{
    (void)command;
    (void)fputs(".TP\n", out);
    if (o->letter != 0) {
        (void)fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    }
    (void)fputs("\\fB\\-\\-", out);
    print_text(out, o->name);
    (void)fputs("\\fR", out);
    if (o->value != NULL) {
        (void)fputs(" \\fI", out);
        print_text(out, o->value);
        (void)fprintf(out, "\\fR%s", o->is_repeatable ? " ..." : "");
    }
    (void)fputc('\n', out);
    print_text(out, o->help);
    (void)fputc('\n', out);
}

/* Paragraphs are filled; lines that begin with a space stay as they are. */
static void print_details(FILE *out, const char *text)
{
    bool is_verbatim = false;
    (void)fputs(".PP\n", out);
    while (*text != '\0') {
        const size_t size = strcspn(text, "\n");
        if (is_verbatim != (*text == ' ')) {
            is_verbatim = !is_verbatim;
            (void)fputs(is_verbatim ? ".nf\n" : ".fi\n", out);
        }
        if (size == 0) {
            (void)fputs(".PP", out);
        }
        print_part(out, text, size);
        (void)fputc('\n', out);
        text += size + (text[size] == '\n');
    }
    if (is_verbatim) {
        (void)fputs(".fi\n", out);
    }
}

static void print_command(FILE *out, const struct cli_command *command)
{
    (void)fprintf(out,
                  ".SS coreflume %s%s%s\n",
                  command->name,
                  command->operands[0] != '\0' ? " " : "",
                  command->operands);
    (void)fputc(toupper((unsigned char)command->summary[0]), out);
    print_text(out, command->summary + 1);
    (void)fputs(".\n", out);
    cli_each_option(out, command, print_option);
    if (command->details != NULL) {
        print_details(out, command->details);
    }
}

int cli_manual(struct cli *cli)
{
    FILE *out = cli->out;
    (void)fputs(".TH COREFLUME 1 \"\" \"coreflume " COREFLUME_VERSION "\" \"\"\n"
                ".nh\n"
                ".ad l\n"
                ".SH NAME\n"
                "coreflume \\- ",
                out);
    print_text(out, CLI_ABOUT);
    (void)fputs("\n.SH SYNOPSIS\n\\fBcoreflume\\fR \\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n"
                ".SH DESCRIPTION\n",
                out);
    print_text(out, CLI_ABOUT_OPTIONS);
    (void)fputs(".SH COMMANDS\n", out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        print_command(out, &CLI_COMMANDS[i]);
    }
    (void)fputs(".SH ENVIRONMENT\n"
                ".TP\n\\fBCOREFLUME_BROKERS\\fR\n"
                "brokers to ask where \\-b does not name any: HOST:PORT,...\n"
                ".SH EXIT STATUS\n"
                ".TP\n0\nok\n"
                ".TP\n1\nfailed: a line on standard error says why, and what to do\n"
                ".TP\n2\nwrong usage\n",
                out);
    return CLI_OK;
}
