#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const char usage[] = "usage: coreflume start [OPTIONS] | version\n";

int cli_main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "version") == 0) {
        (void)puts("coreflume " COREFLUME_VERSION);
        return 0;
    }
    (void)fputs(usage, argc == 2 && strcmp(argv[1], "--help") == 0 ? stdout : stderr);
    return 2;
}
