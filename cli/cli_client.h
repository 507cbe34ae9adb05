/* What the commands that talk to brokers share: the client, and what to say when it fails.
 *
 * One thread, no shard.
 */
#pragma once

#include <jansson.h>

#include "cli/cli_command.h"
#include "client/client.h"

/* A client for the brokers of -b, COREFLUME_BROKERS or the default. Nothing is asked yet. CLI_OK,
 * or what to return. */
int cli_client_new(struct cli *cli, struct client **ret_client);

/* Of --brokers; never NULL. */
const char *cli_brokers(const struct cli *cli);

/* Of --codec and --acks. */
enum client_codec cli_codec(const struct cli *cli);
enum client_acks cli_acks(const struct cli *cli);

/* Says why the client's latest call failed, with what to do about it. Returns CLI_FAILED. topic:
 * the one it was about, or NULL. */
int cli_client_fail(struct cli *cli, struct client *c, enum err e, const char *topic);

/* Says why something could not be done to the topic, or to another thing of this name. Returns
 * CLI_FAILED. */
int cli_result_fail(struct cli *cli,
                    struct client *c,
                    const char *name,
                    const struct client_topic_result *r);

/* Prints json on a line of its own and frees it. CLI_OK, or CLI_FAILED and a line on err. Takes
 * NULL, for no memory. */
int cli_print_json(struct cli *cli, json_t *json);

/* A string of JSON; what is not UTF-8 in it becomes U+FFFD. */
json_t *cli_json_slice(struct slice s);
