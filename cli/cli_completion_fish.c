/* coreflume completion fish. */
#include <string.h>

#include "cli/cli_completion.h"

static const char head[] =
    "# fish completion of coreflume; made by: coreflume completion fish\n"
    "\n"
    "function __coreflume_names\n"
    "    timeout 1 coreflume $argv[1] list 2>/dev/null | sed -n '2,$ s/ .*//p'\n"
    "end\n"
    "\n"
    "# True if the operands so far begin with these words; without any, if there are none.\n"
    "function __coreflume_is\n"
    "    set -l operands\n"
    "    set -l skip 0\n"
    "    for word in (commandline -opc)[2..-1]\n"
    "        if test $skip = 1\n"
    "            set skip 0\n"
    "        else if contains -- $word ";

static const char behind_values[] = "\n"
                                    "            set skip 1\n"
                                    "        else if not string match -q -- '-*' $word\n"
                                    "            set -a operands $word\n"
                                    "        end\n"
                                    "    end\n"
                                    "    set -l count (count $argv)\n"
                                    "    if test $count = 0\n"
                                    "        test (count $operands) = 0\n"
                                    "        return\n"
                                    "    end\n"
                                    "    test \"$operands[1..$count]\" = \"$argv\"\n"
                                    "end\n"
                                    "\n"
                                    "complete -c coreflume -f\n"
                                    "complete -c coreflume -s h -l help -d 'this text'\n";

static void print_text(FILE *out, const char *text)
{
    (void)fputc('\'', out);
    cli_print_escaped(out, text, "'\\", "\\");
    (void)fputc('\'', out);
}

static void print_option(FILE *out, const struct cli_command *command, const struct cli_option *o)
{
    (void)fprintf(out, "complete -c coreflume -n '__coreflume_is %s'", command->name);
    if (o->letter != 0) {
        (void)fprintf(out, " -s %c", o->letter);
    }
    (void)fprintf(out, " -l %s", o->name);
    const struct cli_offer offer = cli_offer_of_option(o);
    if (cli_is_list(offer)) {
        (void)fputs(" -x -a '", out);
        cli_print_list(out, offer);
        (void)fputc('\'', out);
    } else if (offer.kind == CLI_OFFER_NAMES) {
        (void)fprintf(out, " -x -a '(__coreflume_names %s)'", offer.words);
    } else if (offer.kind != CLI_OFFER_NOTHING) {
        (void)fputs(" -r -F", out);
    } else if (o->kind != CLI_FLAG) {
        (void)fputs(" -x", out);
    }
    (void)fputs(" -d ", out);
    print_text(out, o->help);
    (void)fputc('\n', out);
}

static void print_operands(FILE *out, const struct cli_command *command)
{
    const struct cli_offer offer = cli_offer_of_operands(command);
    if (offer.kind == CLI_OFFER_NOTHING) {
        return;
    }
    (void)fprintf(out, "complete -c coreflume -n '__coreflume_is %s' ", command->name);
    if (cli_is_list(offer)) {
        (void)fputs("-a '", out);
        cli_print_list(out, offer);
        (void)fputs("'\n", out);
    } else if (offer.kind == CLI_OFFER_NAMES) {
        (void)fprintf(out, "-a '(__coreflume_names %s)'\n", offer.words);
    } else {
        (void)fputs("-F\n", out);
    }
}

/* "topic create": topic where nothing stands yet, create behind topic and before another verb. */
static void print_name(FILE *out, const struct cli_command *command)
{
    const char *name = command->name;
    const size_t size = strcspn(name, " ");
    (void)fprintf(out, "complete -c coreflume -n __coreflume_is -a %.*s", (int)size, name);
    if (name[size] == '\0') {
        (void)fputs(" -d ", out);
        print_text(out, command->summary);
        (void)fputc('\n', out);
        return;
    }
    char group[64];
    (void)snprintf(group, sizeof(group), "%.*s", (int)size, name);
    (void)fprintf(out,
                  "\ncomplete -c coreflume -n '__coreflume_is %s; and not contains -- (commandline "
                  "-opc)[-1] ",
                  group);
    cli_print_verbs(out, group);
    (void)fprintf(out, "' -a %s -d ", name + size + 1);
    print_text(out, command->summary);
    (void)fputc('\n', out);
}

void cli_completion_fish(FILE *out)
{
    (void)fputs(head, out);
    cli_print_value_options(out, " ");
    (void)fputs(behind_values, out);
    for (size_t i = 0; i < CLI_COMMANDS_COUNT; i++) {
        const struct cli_command *command = &CLI_COMMANDS[i];
        print_name(out, command);
        cli_each_option(out, command, print_option);
        print_operands(out, command);
    }
}
