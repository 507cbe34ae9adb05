/* coreflume version: what this binary is. */
#include <string.h>

#include "cli/build_info.h"
#include "cli/cli_client.h"
#include "cli/cli_parse.h"

static const char machine[] =
#if defined(__x86_64__)
    "x86-64";
#elif defined(__aarch64__)
    "aarch64";
#else
    "unknown";
#endif

static const char compiler[] =
#if defined(__clang__)
    "clang " __clang_version__;
#else
    "gcc " __VERSION__;
#endif

/* "name version,name version" */
static json_t *libraries_json(void)
{
    json_t *object = json_object();
    for (const char *item = BUILD_LIBRARIES; *item != '\0';) {
        const size_t size = strcspn(item, ",");
        const size_t name_size = strcspn(item, " ");
        char name[64];
        (void)snprintf(name, sizeof(name), "%.*s", (int)name_size, item);
        (void)json_object_set_new(
            object, name, json_stringn(item + name_size + 1, size - name_size - 1));
        item += size + (item[size] == ',');
    }
    return object;
}

static void print_libraries(FILE *out)
{
    const char *before = "libraries  ";
    for (const char *item = BUILD_LIBRARIES; *item != '\0';) {
        const size_t size = strcspn(item, ",");
        (void)fprintf(out, "%s%.*s", before, (int)size, item);
        before = ", ";
        item += size + (item[size] == ',');
    }
    (void)fputc('\n', out);
}

int cli_version(struct cli *cli)
{
    if (cli_has(cli, "json")) {
        return cli_print_json(cli,
                              json_pack("{s:s, s:s, s:s, s:s, s:s, s:o}",
                                        "version",
                                        COREFLUME_VERSION,
                                        "commit",
                                        BUILD_COMMIT,
                                        "build",
                                        BUILD_TYPE,
                                        "compiler",
                                        compiler,
                                        "machine",
                                        machine,
                                        "libraries",
                                        libraries_json()));
    }
    (void)fprintf(cli->out,
                  "coreflume %s\ncommit     %s\nbuild      %s, %s, %s\n",
                  COREFLUME_VERSION,
                  BUILD_COMMIT,
                  BUILD_TYPE,
                  machine,
                  compiler);
    print_libraries(cli->out);
    return CLI_OK;
}
