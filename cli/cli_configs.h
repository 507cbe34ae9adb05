/* What became of one change that was asked for.
 *
 * The program's one thread.
 */
#pragma once

struct cli;
struct client;
struct client_topic_result;

/* A line, or an object; done says what it was: "altered". Returns the exit code. */
int cli_print_result(struct cli *cli,
                     struct client *c,
                     const char *name,
                     const struct client_topic_result *r,
                     const char *done);
