#include "cli/cli_check.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli_client.h"
#include "cli/cli_parse.h"
#include "cli/cli_table.h"
#include "cli/cli_text.h"
#include "core/assert.h"

enum {
    PATH_SIZE = 512,
};

static const char *const status_names[] = {
    [CLI_CHECK_PASS] = "PASS",
    [CLI_CHECK_WARN] = "WARN",
    [CLI_CHECK_FAIL] = "FAIL",
};

struct cli_check_result *
cli_check_add(struct cli_check *x, const char *name, enum cli_check_status status)
{
    assert_cmp(x->results_count, <, CLI_CHECKS_MAX);
    struct cli_check_result *r = &x->results[x->results_count++];
    *r = (struct cli_check_result){.name = name, .status = status};
    return r;
}

void cli_check_value(struct cli_check_result *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(r->value, sizeof(r->value), format, arguments);
    va_end(arguments);
}

void cli_check_advice(struct cli_check_result *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(r->advice, sizeof(r->advice), format, arguments);
    va_end(arguments);
}

bool cli_check_read(const struct cli_check *x, const char *path, char *ret_line, size_t size)
{
    char full[PATH_SIZE];
    (void)snprintf(full, sizeof(full), "%s%s", x->root, path);
    FILE *file = fopen(full, "re");
    if (file == NULL) {
        return false;
    }
    const bool is_read = fgets(ret_line, (int)size, file) != NULL;
    (void)fclose(file);
    if (is_read) {
        ret_line[strcspn(ret_line, "\n")] = '\0';
    }
    return is_read;
}

static size_t count_status(const struct cli_check *x, enum cli_check_status status)
{
    size_t count = 0;
    for (size_t i = 0; i < x->results_count; i++) {
        count += x->results[i].status == status;
    }
    return count;
}

static int print_json(struct cli *cli, const struct cli_check *x)
{
    json_t *list = json_array();
    for (size_t i = 0; i < x->results_count; i++) {
        const struct cli_check_result *r = &x->results[i];
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s, s:o, s:o}",
                                              "name",
                                              r->name,
                                              "status",
                                              status_names[r->status],
                                              "value",
                                              cli_json_slice(slice_of_string(r->value)),
                                              "advice",
                                              r->advice[0] == '\0'
                                                  ? json_null()
                                                  : cli_json_slice(slice_of_string(r->advice))));
    }
    return cli_print_json(
        cli, json_pack("{s:b, s:o}", "ok", count_status(x, CLI_CHECK_FAIL) == 0, "checks", list));
}

/* The table, and below it what to do: advice is longer than a column. */
static void print_text(struct cli *cli, const struct cli_check *x)
{
    static const char *const heading[] = {"CHECK", "", "VALUE"};
    struct cli_table table;
    cli_table_init(&table, 3, heading);
    for (size_t i = 0; i < x->results_count; i++) {
        const struct cli_check_result *r = &x->results[i];
        cli_table_cell(&table, "%s", r->name);
        cli_table_cell(&table, "%s", status_names[r->status]);
        cli_table_cell(&table, "%s", r->value);
    }
    cli_table_print(&table, cli->out);
    cli_table_done(&table);
    for (size_t i = 0; i < x->results_count; i++) {
        const struct cli_check_result *r = &x->results[i];
        if (r->status != CLI_CHECK_PASS) {
            (void)fputc('\n', cli->out);
            cli_put_line(cli->out, "%s %s: %s", status_names[r->status], r->name, r->advice);
        }
    }
    (void)fprintf(cli->out,
                  "\n%zu passed, %zu to improve, %zu that keep a broker from starting\n",
                  count_status(x, CLI_CHECK_PASS),
                  count_status(x, CLI_CHECK_WARN),
                  count_status(x, CLI_CHECK_FAIL));
}

int cli_check(struct cli *cli)
{
    struct cli_check *x = calloc(1, sizeof(*x));
    if (x == NULL) {
        return cli_fail(cli, CLI_FAILED, "no memory");
    }
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    x->root = "";
    x->data_dir = cli_text(cli, "data-dir", "data");
    x->cores_count = cores > 0 ? (int)cores : 1;
    uint64_t device = 0;
    cli_check_kernel(x, &device);
    cli_check_files(x, device);
    int code = CLI_OK;
    if (cli_has(cli, "json")) {
        code = print_json(cli, x);
    } else {
        print_text(cli, x);
    }
    code = count_status(x, CLI_CHECK_FAIL) > 0 ? CLI_FAILED : code;
    free(x);
    return code;
}
