/* The configuration reader: what is taken, and for what is refused the exact line people see. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/config.h"

static const struct config_option options[] = {
    {.name = "auto.create.topics.enable",
     .type = CONFIG_BOOL,
     .fallback = "true",
     .doc = "Create topics on first use.",
     .is_dynamic = true},
    {.name = "num.partitions",
     .type = CONFIG_INT,
     .fallback = "1",
     .min = 1,
     .max = 1000,
     .unit = "partitions",
     .doc = "Of a new topic."},
    {.name = "log.segment.bytes",
     .type = CONFIG_SIZE,
     .fallback = "1GiB",
     .min = 1 << 20,
     .max = 1 << 30,
     .doc = "Roll at this size."},
    {.name = "log.retention.ms",
     .type = CONFIG_DURATION_MS,
     .fallback = "7d",
     .min = -1,
     .max = INT64_MAX,
     .doc = "Keep for this long."},
    {.name = "broker.rack", .type = CONFIG_STRING, .fallback = "", .doc = "Rack."},
    {.name = "listeners", .type = CONFIG_LIST, .fallback = "a,b", .doc = "Listeners."},
    {.name = "log.roll.ms", .type = CONFIG_DURATION_MS, .fallback = NULL, .doc = "Unset."},
    {.name = "compression.type",
     .type = CONFIG_ENUM,
     .fallback = "producer",
     .words = "producer|none|gzip",
     .doc = "Codec."},
};

static const struct config_table table = {options, sizeof(options) / sizeof(options[0])};

static struct config *new_config(void)
{
    struct config *c = NULL;
    cr_assert(eq(int, config_new(&table, &c), ERR_OK));
    return c;
}

static enum err load(struct config *c, const char *text, char ret_why[CONFIG_WHY_SIZE])
{
    ret_why[0] = '\0';
    return config_load_text(c, "coreflume.yaml", text, strlen(text), ret_why);
}

Test(config, a_default_may_be_none)
{
    struct config *c = new_config();
    char why[CONFIG_WHY_SIZE];
    cr_assert(eq(str, (char *)config_text(c, "log.roll.ms"), ""));
    cr_assert(eq(i64, config_number(c, "log.roll.ms"), 0));
    cr_assert(eq(int, config_set_pair(c, "log.roll.ms=5s", why), ERR_OK), "%s", why);
    cr_assert(eq(str, (char *)config_text(c, "log.roll.ms"), "5s"));
    cr_assert(eq(i64, config_number(c, "log.roll.ms"), 5000));
    config_free(c);
}

Test(config, defaults)
{
    struct config *c = new_config();
    char item[16];
    cr_assert(config_bool(c, "auto.create.topics.enable"));
    cr_assert(eq(i64, config_number(c, "num.partitions"), 1));
    cr_assert(eq(i64, config_number(c, "log.segment.bytes"), 1 << 30));
    cr_assert(eq(i64, config_number(c, "log.retention.ms"), 7ll * 24 * 3600 * 1000));
    cr_assert(eq(i64, config_number(c, "compression.type"), 0));
    cr_assert(eq(str, (char *)config_text(c, "broker.rack"), ""));
    cr_assert(eq(str, (char *)config_origin(c, "broker.rack"), "default"));
    cr_assert(eq(sz, config_list_count(c, "listeners"), 2));
    cr_assert(config_list_item(c, "listeners", 1, item, sizeof(item)));
    cr_assert(eq(str, item, "b"));
    cr_assert(not(config_list_item(c, "listeners", 2, item, sizeof(item))));
    config_free(c);
}

Test(config, file_then_flags)
{
    const char text[] = "# A comment.\n"
                        "num.partitions: 12\n"
                        "log.segment.bytes: 64MiB\n"
                        "log.retention.ms: -1\n"
                        "broker.rack: \"eu: 1\"\n"
                        "listeners: [INTERNAL://:9092, EXTERNAL://:9093]\n"
                        "compression.type: gzip\n";
    struct config *c = new_config();
    char why[CONFIG_WHY_SIZE];
    char item[32];
    cr_assert(eq(int, load(c, text, why), ERR_OK), "%s", why);
    cr_assert(eq(int, config_set_pair(c, "num.partitions=13", why), ERR_OK));
    cr_assert(eq(int, config_set_pair(c, "broker.rack=a=b", why), ERR_OK));

    cr_assert(eq(i64, config_number(c, "num.partitions"), 13));
    cr_assert(eq(str, (char *)config_origin(c, "num.partitions"), "--set"));
    cr_assert(eq(i64, config_number(c, "log.segment.bytes"), 64 << 20));
    cr_assert(eq(str, (char *)config_origin(c, "log.segment.bytes"), "coreflume.yaml:3"));
    cr_assert(eq(i64, config_number(c, "log.retention.ms"), -1));
    cr_assert(eq(str, (char *)config_text(c, "broker.rack"), "a=b"));
    cr_assert(eq(i64, config_number(c, "compression.type"), 2));
    cr_assert(eq(sz, config_list_count(c, "listeners"), 2));
    cr_assert(config_list_item(c, "listeners", 1, item, sizeof(item)));
    cr_assert(eq(str, item, "EXTERNAL://:9093"));
    config_free(c);
}

Test(config, lists_have_two_forms_in_the_file_and_one_on_the_command_line)
{
    struct config *c = new_config();
    char why[CONFIG_WHY_SIZE];
    char item[16];
    cr_assert(eq(int, load(c, "listeners:\n  - one\n  - two\n  - three\n", why), ERR_OK));
    cr_assert(eq(str, (char *)config_text(c, "listeners"), "one,two,three"));
    cr_assert(eq(int, load(c, "listeners: []\n", why), ERR_OK));
    cr_assert(eq(sz, config_list_count(c, "listeners"), 0));
    cr_assert(eq(int, config_set_pair(c, "listeners=one , two", why), ERR_OK));
    cr_assert(config_list_item(c, "listeners", 0, item, sizeof(item)));
    cr_assert(eq(str, item, "one"));
    cr_assert(config_list_item(c, "listeners", 1, item, sizeof(item)));
    cr_assert(eq(str, item, "two"));
    config_free(c);
}

struct refusal_row {
    const char *text;
    const char *why;
};

Test(config, refusals_of_the_file_say_where_and_what)
{
    const struct refusal_row rows[] = {
        {"num.partitions: 1\n\nauto.create.topic.enable: true\n",
         "coreflume.yaml:3: unknown key 'auto.create.topic.enable', did you mean "
         "'auto.create.topics.enable'?"},
        {"auto.create.topics.enable: yes\n",
         "coreflume.yaml:1: 'auto.create.topics.enable' cannot be 'yes': expected true or false"},
        {"num.partitions: 0\n",
         "coreflume.yaml:1: 'num.partitions' cannot be '0': expected a whole number from 1 to "
         "1000"},
        {"num.partitions: 1.5\n",
         "coreflume.yaml:1: 'num.partitions' cannot be '1.5': expected a whole number from 1 to "
         "1000"},
        {"log.segment.bytes: 1MB\n",
         "coreflume.yaml:1: 'log.segment.bytes' cannot be '1MB': expected bytes, or a size such as "
         "64KiB, 1MiB, 2GiB, from 1MiB to 1GiB"},
        {"log.retention.ms: soon\n",
         "coreflume.yaml:1: 'log.retention.ms' cannot be 'soon': expected milliseconds, or a time "
         "such as 500ms, 10s, 5m, 7d, at least -1"},
        {"compression.type: brotli\n",
         "coreflume.yaml:1: 'compression.type' cannot be 'brotli': expected one of "
         "producer|none|gzip"},
        {"num:\n  partitions: 3\n",
         "coreflume.yaml:2: 'num' holds a nested map: write each key in full, as in 'num.name: "
         "value'"},
        {"\"num\\nber\":\n  partitions: 3\n",
         "coreflume.yaml:2: 'num\\x0aber' holds a nested map: write each key in full, as in "
         "'num\\x0aber.name: value'"},
        {"listeners: [a, [b]]\n",
         "coreflume.yaml:1: the list of 'listeners' may hold plain values only"},
        {"listeners: [\"a,b\"]\n",
         "coreflume.yaml:1: an item of the list of 'listeners' has a comma"},
        {"broker.rack: a\nnum.partitions: 2\nbroker.rack: b\n",
         "coreflume.yaml:3: 'broker.rack' was given before, at coreflume.yaml:1"},
        {"broker.rack: *x\n",
         "coreflume.yaml:1: 'broker.rack' refers to an anchor, which is not supported"},
        {"- a\n", "coreflume.yaml:1: expected 'key: value' lines"},
        {"just words\n", "coreflume.yaml:1: expected 'key: value' lines"},
        {"broker.rack: a\n---\nbroker.rack: b\n", "coreflume.yaml:2: only one document per file"},
        {"[a, b]: c\n", "coreflume.yaml:1: expected 'key: value' lines"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        if (strncmp(rows[i].text, "[a", 2) == 0) {
            cr_assert(eq(int, load(c, rows[i].text, why), ERR_CONFIG_INVALID));
        } else {
            cr_assert(eq(int, load(c, rows[i].text, why), ERR_CONFIG_INVALID), "%s", rows[i].text);
            cr_assert(eq(str, why, (char *)rows[i].why));
        }
        cr_assert(eq(i64, config_number(c, "num.partitions"), 1), "nothing of a bad file counts");
        config_free(c);
    }
}

/* Public case C145, as what follows. */
Test(config, c145_broken_yaml_is_refused_with_line_and_column)
{
    static const struct {
        const char *text;
        size_t size; /* 0: up to its end. */
        const char *why;
    } rows[] = {
        {"broker.rack: \"open\n", 0, ":2: column 1: not valid YAML: found unexpected end"},
        {"broker.rack: b: c\n", 0, ":1: column 15: not valid YAML: mapping values"},
        {"\tbroker.rack: x\n", 0, ":1: column 1: not valid YAML: found character"},
        {"}", 0, ":1: column 1: not valid YAML"},
        {"num.partitions: 2\nbroker.rack: \"a\\d\"\n",
         0,
         ":2: column 16: not valid YAML: found unk"},
        {"num.partitions: 2\r\nbroker.rack: a\0b\n", 36, ":2: column 15: not valid YAML: control"},
        {"num.partitions: 2\n\nbroker.rack: \xff\n", 0, ":3: column 14: not valid YAML: invalid"},
        {"num.partitions: 2\0", 18, ":1: column 18: not valid YAML: control"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        const size_t size = rows[i].size == 0 ? strlen(rows[i].text) : rows[i].size;
        enum err e = config_load_text(c, "coreflume.yaml", rows[i].text, size, why);
        cr_assert(eq(int, e, ERR_CONFIG_INVALID), "row %zu", i);
        char wanted[CONFIG_WHY_SIZE];
        (void)snprintf(wanted, sizeof(wanted), "coreflume.yaml%s", rows[i].why);
        cr_assert(eq(int, strncmp(why, wanted, strlen(wanted)), 0), "row %zu: %s", i, why);
        cr_assert(eq(i64, config_number(c, "num.partitions"), 1), "nothing of a bad file counts");
        config_free(c);
    }
}

/* What editors of all kinds leave in files. */
Test(config, c145_line_ends_and_marks_do_not_matter)
{
    static const char *const texts[] = {
        "num.partitions: 2\r\nbroker.rack: a\\d\r\n",
        "\xef\xbb\xbfnum.partitions: 2\nbroker.rack: a\\d\n",
        "num.partitions:\t2\nbroker.rack: 'a\\d'\t# A tab.\n",
        "num.partitions: 2\rbroker.rack: a\\d\r",
        "num.partitions: 2\nbroker.rack: a\\d", /* No newline at the end. */
        "num.partitions: 2\nbroker.rack: \"a\\\\d\"",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        cr_assert(eq(int, load(c, texts[i], why), ERR_OK), "row %zu: %s", i, why);
        cr_assert(eq(i64, config_number(c, "num.partitions"), 2), "row %zu", i);
        cr_assert(eq(str, (char *)config_text(c, "broker.rack"), "a\\d"), "row %zu", i);
        config_free(c);
    }
}

/* Public case C143: a value that looks right and is not is shown with what is wrong about it. */
Test(config, c143_what_cannot_be_seen_is_shown)
{
    static const struct refusal_row rows[] = {
        {"num.partitions: 5\xc2\xa0\n", "'num.partitions' cannot be '5\\xc2\\xa0'"},
        {"num.partitions: \"5 \"\n", "'num.partitions' cannot be '5 '"},
        {"\xc2\xa0num.partitions: 5\n", "unknown key '\\xc2\\xa0num.partitions'"},
        {"broker.rack: \"\\e[2Jx\"\n", "'broker.rack' cannot be '\\x1b[2Jx'"},
        {"broker.rack: \"\\x9b2Jx\"\n", "'broker.rack' cannot be '\\xc2\\x9b2Jx'"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        cr_assert(eq(int, load(c, rows[i].text, why), ERR_CONFIG_INVALID), "row %zu", i);
        cr_assert(ne(ptr, strstr(why, rows[i].why), NULL), "row %zu: %s", i, why);
        config_free(c);
    }
}

Test(config, empty_files_are_fine)
{
    const char *const texts[] = {"", "# Nothing.\n", "---\n", "{}\n"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        cr_assert(eq(int, load(c, texts[i], why), ERR_OK), "%s", why);
        config_free(c);
    }
}

/* Every prefix of a valid file ends in an answer, never in a crash. */
Test(config, every_cut_of_a_file)
{
    const char text[] = "broker.rack: \"x\"\nlisteners:\n  - a\n  - b\nnum.partitions: 3\n";
    for (size_t size = 0; size < sizeof(text); size++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        (void)config_load_text(c, "f", text, size, why);
        config_free(c);
    }
}

Test(config, flags_are_named)
{
    const struct refusal_row rows[] = {
        {"num.partition=2", "--set: unknown key 'num.partition', did you mean 'num.partitions'?"},
        {"num.partitions=x",
         "--set: 'num.partitions' cannot be 'x': expected a whole number from 1 to 1000"},
        {"num.partitions", "--set: expected KEY=VALUE, not 'num.partitions'"},
        {"=1", "--set: expected KEY=VALUE, not '=1'"},
        {"broker.rack=a\nb",
         "--set: 'broker.rack' cannot be 'a\\x0ab': expected text without control "
         "characters"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct config *c = new_config();
        char why[CONFIG_WHY_SIZE];
        cr_assert(eq(int, config_set_pair(c, rows[i].text, why), ERR_CONFIG_INVALID));
        cr_assert(eq(str, why, (char *)rows[i].why));
        config_free(c);
    }
}

struct number_row {
    size_t option;
    const char *text;
    int64_t number;
    bool is_valid;
};

Test(config, numbers)
{
    const struct number_row rows[] = {
        {1, "1000", 1000, true},
        {1, "1001", 0, false},
        {1, "-1", 0, false},
        {1, "+5", 0, false},
        {1, " 5", 0, false},
        {1, "5 ", 0, false},
        {1, "", 0, false},
        {1, "-", 0, false},
        {1, "99999999999999999999", 0, false},
        {2, "1048576", 1 << 20, true},
        {2, "1024KiB", 1 << 20, true},
        {2, "1GiB", 1 << 30, true},
        {2, "9223372036854775807GiB", 0, false},
        {2, "1 GiB", 0, false},
        {3, "-1", -1, true},
        {3, "-2", 0, false},
        {3, "1500", 1500, true},
        {3, "3h", 3ll * 3600 * 1000, true},
        {3, "3w", 0, false},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t number = 0;
        enum err e = config_parse(&options[rows[i].option], rows[i].text, &number);
        cr_assert(eq(int, e, rows[i].is_valid ? ERR_OK : ERR_CONFIG_INVALID), "%s", rows[i].text);
        cr_assert(eq(i64, number, rows[i].number), "%s", rows[i].text);
    }
}

Test(config, check_serves_topic_configs)
{
    char why[CONFIG_WHY_SIZE];
    cr_assert(eq(int, config_check(&table, "compression.type", "none", why), ERR_OK));
    cr_assert(eq(int, config_check(&table, "compression.typ", "none", why), ERR_CONFIG_INVALID));
    cr_assert(eq(str, why, "unknown key 'compression.typ', did you mean 'compression.type'?"));
    cr_assert(eq(int, config_check(&table, "compression.type", "no", why), ERR_CONFIG_INVALID));
    cr_assert(
        eq(str, why, "'compression.type' cannot be 'no': expected one of producer|none|gzip"));
}

Test(config, files)
{
    struct config *c = new_config();
    char why[CONFIG_WHY_SIZE];
    cr_assert(eq(int, config_load_file(c, "no-such-file.yaml", why), ERR_NOT_FOUND));
    cr_assert(eq(str, why, "no-such-file.yaml: cannot be read: No such file or directory"));

    char path[] = "test_config.XXXXXX";
    int fd = mkstemp(path);
    const char text[] = "num.partitions: 7\n";
    cr_assert(eq(long, write(fd, text, sizeof(text) - 1), (long)sizeof(text) - 1));
    (void)close(fd);
    cr_assert(eq(int, config_load_file(c, path, why), ERR_OK), "%s", why);
    cr_assert(eq(i64, config_number(c, "num.partitions"), 7));
    (void)unlink(path);
    config_free(c);
}

Test(config, markdown_has_a_row_per_option)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    config_print_markdown(&table, out);
    (void)fclose(out);
    cr_assert(ne(ptr,
                 strstr(text,
                        "| `log.segment.bytes` | size | `1GiB` | bytes | from 1MiB to 1GiB | at "
                        "start | Roll at this size. |\n"),
                 NULL));
    cr_assert(ne(ptr, strstr(text, "| enum | `producer` |  | producer, none, gzip |"), NULL));
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n' ? 1 : 0;
    }
    cr_assert(eq(sz, lines, table.count + 2));
    free(text);
}
