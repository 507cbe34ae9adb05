/* coreflume topic: grow. */
#include "cli/cli_client.h"
#include "cli/cli_configs.h"
#include "cli/cli_parse.h"
#include "client/client.h"

enum {
    LEADERS_TIMEOUT_MS = 30000,
};

/* ---- grow ---- */

int cli_topic_grow(struct cli *cli)
{
    const char *topic = cli->operands[0];
    if (!cli_has(cli, "partitions")) {
        return cli_fail(
            cli, CLI_USAGE, "'topic grow' needs -p N: how many partitions there are to be");
    }
    struct client *c = NULL;
    int code = cli_client_new(cli, &c);
    if (code != CLI_OK) {
        return code;
    }
    struct client_topic_result result;
    enum err e =
        client_create_partitions(c, topic, (int32_t)cli_number(cli, "partitions", 0), &result);
    if (e == ERR_OK && result.err == ERR_OK) {
        e = client_wait_for_leaders(c, topic, LEADERS_TIMEOUT_MS);
    }
    code = e == ERR_OK ? cli_print_result(cli, c, topic, &result, "grown")
                       : cli_client_fail(cli, c, e, topic);
    client_free(c);
    return code;
}
