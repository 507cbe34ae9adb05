#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_command.h"
#include "cli/cli_parse.h"

/* Output that did not arrive is a failure: a full disk must not look like success. A reader that
 * had enough (head) is none to speak of, also where SIGPIPE is ignored and does not end the
 * program. */
static int close_output(struct cli *cli, int code)
{
    if (fflush(cli->out) != 0 || ferror(cli->out)) {
        if (errno == EPIPE) {
            return CLI_FAILED;
        }
        return cli_fail(cli, CLI_FAILED, "cannot write the output (%s)", strerror(errno));
    }
    return code;
}

int cli_main(int argc, char **argv)
{
    struct cli cli = {.out = stdout, .err = stderr, .in_fd = STDIN_FILENO};
    int code = cli_parse(&cli, argc, argv);
    if (code == CLI_OK && cli.command->run == NULL) {
        code = cli_fail(&cli, CLI_USAGE, "'start' comes first: coreflume start [OPTIONS]");
    } else if (code == CLI_OK) {
        code = close_output(&cli, cli.command->run(&cli));
    }
    cli_parse_done(&cli);
    return code;
}
