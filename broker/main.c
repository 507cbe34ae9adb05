/* The process: `coreflume start` is the broker, every other subcommand is cli's. */
#include <string.h>

#include "broker/start.h"
#include "cli/cli.h"

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "start") == 0) {
        return start_main(argc - 1, argv + 1);
    }
    return cli_main(argc, argv);
}
