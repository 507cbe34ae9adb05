#include "core/config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/assert.h"
#include "core/config_yaml_priv.h"
#include "core/edit_distance.h"
#include "core/utf8.h"

struct value {
    char *text;   /* NULL: the default. */
    char *origin; /* NULL: the default. */
    int64_t number;
};

struct config {
    const struct config_table *table;
    struct value values[];
};

/* The table */

const struct config_option *config_find(const struct config_table *t, const char *name)
{
    for (size_t i = 0; i < t->count; i++) {
        if (strcmp(t->options[i].name, name) == 0) {
            return &t->options[i];
        }
    }
    return NULL;
}

static const char *nearest_name(const struct config_table *t, const char *name)
{
    const char *nearest = "";
    size_t distance_min = SIZE_MAX;
    for (size_t i = 0; i < t->count; i++) {
        size_t distance = edit_distance(name, t->options[i].name);
        if (distance < distance_min) {
            distance_min = distance;
            nearest = t->options[i].name;
        }
    }
    return nearest;
}

static bool is_limited(const struct config_option *o)
{
    return o->min != 0 || o->max != 0;
}

/* Parsing */

struct suffix {
    const char *text;
    int64_t factor;
};

static const struct suffix size_suffixes[] = {
    {"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};

static const struct suffix duration_suffixes[] = {
    {"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}, {"d", 24 * 3600 * 1000}};

static const struct suffix no_suffixes[] = {{"", 1}};

static bool parse_number(const char *text,
                         const struct suffix *suffixes,
                         size_t suffixes_count,
                         int64_t *ret_number)
{
    const char *digits = text + (*text == '-' ? 1 : 0);
    if (*digits < '0' || *digits > '9') {
        return false; /* strtoll would also take spaces and a plus sign. */
    }
    errno = 0;
    char *end;
    int64_t number = strtoll(text, &end, 10);
    if (errno != 0) {
        return false;
    }
    for (size_t i = 0; i < suffixes_count; i++) {
        if (strcmp(end, suffixes[i].text) == 0) {
            return !__builtin_mul_overflow(number, suffixes[i].factor, ret_number);
        }
    }
    return false;
}

static bool parse_word(const char *words, const char *text, int64_t *ret_index)
{
    size_t size = strlen(text);
    int64_t index = 0;
    for (const char *at = words; *at != '\0'; index++) {
        size_t word_size = strcspn(at, "|");
        if (word_size == size && memcmp(at, text, size) == 0) {
            *ret_index = index;
            return true;
        }
        at += word_size;
        at += *at == '|' ? 1 : 0;
    }
    return false;
}

static bool parse_bool(const char *text, int64_t *ret_number)
{
    bool is_true = strcmp(text, "true") == 0;
    if (!is_true && strcmp(text, "false") != 0) {
        return false;
    }
    *ret_number = is_true ? 1 : 0;
    return true;
}

static bool is_in_range(const struct config_option *o, int64_t number)
{
    return is_limited(o) ? number >= o->min && number <= o->max : number >= 0;
}

enum err config_parse(const struct config_option *o, const char *text, int64_t *ret_number)
{
    int64_t number = 0;
    bool is_valid = false;
    switch (o->type) {
    case CONFIG_BOOL:
        is_valid = parse_bool(text, &number);
        break;
    case CONFIG_INT:
        is_valid = parse_number(text, no_suffixes, 1, &number) && is_in_range(o, number);
        break;
    case CONFIG_SIZE:
        is_valid =
            parse_number(
                text, size_suffixes, sizeof(size_suffixes) / sizeof(size_suffixes[0]), &number) &&
            is_in_range(o, number);
        break;
    case CONFIG_DURATION_MS:
        is_valid = parse_number(text,
                                duration_suffixes,
                                sizeof(duration_suffixes) / sizeof(duration_suffixes[0]),
                                &number) &&
                   is_in_range(o, number);
        break;
    case CONFIG_ENUM:
        is_valid = parse_word(o->words, text, &number);
        break;
    case CONFIG_STRING:
    case CONFIG_LIST:
        break;
    }
    if (!is_valid) {
        return ERR_CONFIG_INVALID;
    }
    *ret_number = number;
    return ERR_OK;
}

static bool has_control_characters(const char *text)
{
    const struct slice all = slice_of_string(text);
    size_t at = 0;
    uint32_t code = 0;
    while (utf8_next(all, &at, &code)) {
        if (utf8_is_control(code)) {
            return true;
        }
    }
    return false;
}

/* *ret_number is 0 for strings and lists. */
static bool is_acceptable(const struct config_option *o, const char *text, int64_t *ret_number)
{
    if (o->type == CONFIG_STRING || o->type == CONFIG_LIST) {
        *ret_number = 0;
        return !has_control_characters(text);
    }
    return config_parse(o, text, ret_number) == ERR_OK;
}

/* Explaining */

static void print_amount(char *ret_text, size_t size, const struct config_option *o, int64_t number)
{
    const struct suffix *suffixes = no_suffixes;
    size_t count = 1;
    if (o->type == CONFIG_SIZE) {
        suffixes = size_suffixes;
        count = sizeof(size_suffixes) / sizeof(size_suffixes[0]);
    } else if (o->type == CONFIG_DURATION_MS) {
        suffixes = duration_suffixes;
        count = sizeof(duration_suffixes) / sizeof(duration_suffixes[0]);
    }
    while (count > 1 && (number <= 0 || number % suffixes[count - 1].factor != 0)) {
        count--;
    }
    (void)snprintf(ret_text,
                   size,
                   "%" PRId64 "%s",
                   number / suffixes[count - 1].factor,
                   suffixes[count - 1].text);
}

static void print_range(char *ret_text, size_t size, const struct config_option *o)
{
    char min[32];
    char max[32];
    print_amount(min, sizeof(min), o, o->min);
    print_amount(max, sizeof(max), o, o->max);
    if (!is_limited(o) || o->max == INT64_MAX) {
        (void)snprintf(ret_text, size, "at least %s", min);
    } else {
        (void)snprintf(ret_text, size, "from %s to %s", min, max);
    }
}

static void print_expected(char *ret_text, size_t size, const struct config_option *o)
{
    char range[80];
    print_range(range, sizeof(range), o);
    switch (o->type) {
    case CONFIG_BOOL:
        (void)snprintf(ret_text, size, "true or false");
        break;
    case CONFIG_INT:
        (void)snprintf(ret_text, size, "a whole number %s", range);
        break;
    case CONFIG_SIZE:
        (void)snprintf(ret_text, size, "bytes, or a size such as 64KiB, 1MiB, 2GiB, %s", range);
        break;
    case CONFIG_DURATION_MS:
        (void)snprintf(
            ret_text, size, "milliseconds, or a time such as 500ms, 10s, 5m, 7d, %s", range);
        break;
    case CONFIG_STRING:
    case CONFIG_LIST:
        (void)snprintf(ret_text, size, "text without control characters");
        break;
    case CONFIG_ENUM:
        (void)snprintf(ret_text, size, "one of %s", o->words);
        break;
    }
}

void config_print_visibly(char *ret_text, size_t size, const char *text)
{
    size_t at = 0;
    ret_text[0] = '\0';
    for (; *text != '\0' && at + sizeof("\\xff") <= size; text++) {
        const unsigned char byte = (unsigned char)*text;
        const bool is_plain = byte >= ' ' && byte < 0x7f;
        at += (size_t)snprintf(ret_text + at, size - at, is_plain ? "%c" : "\\x%02x", byte);
    }
}

static enum err explain_unknown(const struct config_table *t,
                                const char *where,
                                const char *name,
                                char ret_why[CONFIG_WHY_SIZE])
{
    char seen[128];
    config_print_visibly(seen, sizeof(seen), name);
    (void)snprintf(ret_why,
                   CONFIG_WHY_SIZE,
                   "%s%sunknown key '%s', did you mean '%s'?",
                   where,
                   *where == '\0' ? "" : ": ",
                   seen,
                   nearest_name(t, name));
    return ERR_CONFIG_INVALID;
}

static enum err explain_value(const struct config_option *o,
                              const char *where,
                              const char *value,
                              char ret_why[CONFIG_WHY_SIZE])
{
    char seen[68];
    char expected[160];
    config_print_visibly(seen, sizeof(seen), value);
    print_expected(expected, sizeof(expected), o);
    (void)snprintf(ret_why,
                   CONFIG_WHY_SIZE,
                   "%s%s'%s' cannot be '%s': expected %s",
                   where,
                   *where == '\0' ? "" : ": ",
                   o->name,
                   seen,
                   expected);
    return ERR_CONFIG_INVALID;
}

enum err config_check(const struct config_table *t,
                      const char *name,
                      const char *value,
                      char ret_why[CONFIG_WHY_SIZE])
{
    const struct config_option *o = config_find(t, name);
    if (o == NULL) {
        return explain_unknown(t, "", name, ret_why);
    }
    int64_t number;
    if (!is_acceptable(o, value, &number)) {
        return explain_value(o, "", value, ret_why);
    }
    return ERR_OK;
}

static const char *type_name(enum config_type type)
{
    switch (type) {
    case CONFIG_BOOL:
        return "bool";
    case CONFIG_INT:
        return "int";
    case CONFIG_SIZE:
        return "size";
    case CONFIG_DURATION_MS:
        return "duration";
    case CONFIG_STRING:
        return "string";
    case CONFIG_LIST:
        return "list";
    case CONFIG_ENUM:
        return "enum";
    }
    return "";
}

static const char *unit_of(const struct config_option *o)
{
    if (o->type == CONFIG_SIZE) {
        return "bytes";
    }
    if (o->type == CONFIG_DURATION_MS) {
        return "ms";
    }
    return o->unit == NULL ? "" : o->unit;
}

static void print_markdown_row(const struct config_option *o, FILE *out)
{
    const char *fallback = o->fallback == NULL ? "" : o->fallback;
    char range[256] = "";
    bool has_range =
        o->type == CONFIG_INT || o->type == CONFIG_SIZE || o->type == CONFIG_DURATION_MS;
    if (has_range) {
        print_range(range, sizeof(range), o);
    } else if (o->type == CONFIG_ENUM) {
        size_t size = 0;
        for (const char *at = o->words; *at != '\0' && size + 3 < sizeof(range); at++) {
            /* A bare bar would end the column. */
            size +=
                (size_t)snprintf(range + size, sizeof(range) - size, *at == '|' ? ", " : "%c", *at);
        }
    }
    (void)fprintf(out,
                  "| `%s` | %s | %s%s%s | %s | %s | %s | %s |\n",
                  o->name,
                  type_name(o->type),
                  fallback[0] == '\0' ? "" : "`",
                  fallback,
                  fallback[0] == '\0' ? "" : "`",
                  unit_of(o),
                  range,
                  o->is_dynamic ? "at once" : "at start",
                  o->doc);
}

void config_print_markdown(const struct config_table *t, FILE *out)
{
    (void)fprintf(out,
                  "| name | type | default | unit | allowed | takes effect | meaning |\n"
                  "|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < t->count; i++) {
        print_markdown_row(&t->options[i], out);
    }
}

/* Values */

enum err config_new(const struct config_table *t, struct config **ret_config)
{
    struct config *c = calloc(1, sizeof(*c) + t->count * sizeof(struct value));
    if (c == NULL) {
        return ERR_BUSY;
    }
    c->table = t;
    for (size_t i = 0; i < t->count; i++) {
        const char *fallback = t->options[i].fallback;
        bool is_valid =
            fallback == NULL || is_acceptable(&t->options[i], fallback, &c->values[i].number);
        assert(is_valid);
    }
    *ret_config = c;
    return ERR_OK;
}

const struct config_table *config_table_of(const struct config *c)
{
    return c->table;
}

void config_free(struct config *c)
{
    if (c == NULL) {
        return;
    }
    for (size_t i = 0; i < c->table->count; i++) {
        free(c->values[i].text);
        free(c->values[i].origin);
    }
    free(c);
}

static enum err out_of_memory(const char *where, char ret_why[CONFIG_WHY_SIZE])
{
    (void)snprintf(ret_why, CONFIG_WHY_SIZE, "%s: out of memory", where);
    return ERR_BUSY;
}

enum err config_set(struct config *c,
                    const char *where,
                    const char *name,
                    const char *value,
                    char ret_why[CONFIG_WHY_SIZE])
{
    const struct config_option *o = config_find(c->table, name);
    if (o == NULL) {
        return explain_unknown(c->table, where, name, ret_why);
    }
    int64_t number;
    if (!is_acceptable(o, value, &number)) {
        return explain_value(o, where, value, ret_why);
    }
    char *text = strdup(value);
    char *origin = strdup(where);
    if (text == NULL || origin == NULL) {
        free(text);
        free(origin);
        return out_of_memory(where, ret_why);
    }
    struct value *v = &c->values[o - c->table->options];
    free(v->text);
    free(v->origin);
    *v = (struct value){.text = text, .origin = origin, .number = number};
    return ERR_OK;
}

enum err config_set_pair(struct config *c, const char *pair, char ret_why[CONFIG_WHY_SIZE])
{
    char name[256];
    const char *equals = strchr(pair, '=');
    if (equals == NULL || equals == pair || (size_t)(equals - pair) >= sizeof(name)) {
        char seen[128];
        config_print_visibly(seen, sizeof(seen), pair);
        (void)snprintf(ret_why, CONFIG_WHY_SIZE, "--set: expected KEY=VALUE, not '%s'", seen);
        return ERR_CONFIG_INVALID;
    }
    memcpy(name, pair, (size_t)(equals - pair));
    name[equals - pair] = '\0';
    return config_set(c, "--set", name, equals + 1, ret_why);
}

/* context: a config of the file's values alone, which knows what the file said before. */
static enum err on_file_pair(void *context,
                             const char *where,
                             const char *name,
                             const char *value,
                             char ret_why[CONFIG_WHY_SIZE])
{
    struct config *staged = context;
    const struct config_option *o = config_find(staged->table, name);
    const char *before = o == NULL ? NULL : staged->values[o - staged->table->options].origin;
    if (before != NULL) {
        (void)snprintf(
            ret_why, CONFIG_WHY_SIZE, "%s: '%s' was given before, at %s", where, name, before);
        return ERR_CONFIG_INVALID;
    }
    return config_set(staged, where, name, value, ret_why);
}

enum err config_load_text(struct config *c,
                          const char *path,
                          const char *text,
                          size_t size,
                          char ret_why[CONFIG_WHY_SIZE])
{
    /* Kept aside until the end, so that a bad line leaves c as it was. */
    struct config *staged;
    if (config_new(c->table, &staged) != ERR_OK) {
        return out_of_memory(path, ret_why);
    }
    const struct config_yaml yaml = {
        .path = path, .text = text, .size = size, .on_pair = on_file_pair, .context = staged};
    enum err e = config_yaml_read(&yaml, ret_why);
    for (size_t i = 0; e == ERR_OK && i < c->table->count; i++) {
        if (staged->values[i].origin != NULL) {
            struct value previous = c->values[i];
            c->values[i] = staged->values[i];
            staged->values[i] = previous;
        }
    }
    config_free(staged);
    return e;
}

/* The whole file in memory; NULL with errno set on failure. */
static char *read_file(const char *path, size_t *ret_size)
{
    enum { FILE_SIZE_MAX = 1 << 20 };
    FILE *f = fopen(path, "re");
    if (f == NULL) {
        return NULL;
    }
    char *text = malloc(FILE_SIZE_MAX);
    if (text == NULL) {
        (void)fclose(f);
        errno = ENOMEM;
        return NULL;
    }
    size_t size = fread(text, 1, FILE_SIZE_MAX, f);
    int error = ferror(f) != 0 ? EIO : 0;
    if (error == 0 && size == FILE_SIZE_MAX) {
        error = EFBIG;
    }
    if (error != 0) {
        free(text);
        text = NULL;
    }
    (void)fclose(f);
    errno = error;
    *ret_size = size;
    return text;
}

enum err config_load_file(struct config *c, const char *path, char ret_why[CONFIG_WHY_SIZE])
{
    size_t size = 0;
    char *text = read_file(path, &size);
    if (text == NULL) {
        int error = errno;
        (void)snprintf(
            ret_why, CONFIG_WHY_SIZE, "%.256s: cannot be read: %s", path, strerror(error));
        return error == ENOENT ? ERR_NOT_FOUND : ERR_IO;
    }
    enum err e = config_load_text(c, path, text, size, ret_why);
    free(text);
    return e;
}

/* Getters */

static const struct config_option *option_of(const struct config *c, const char *name)
{
    const struct config_option *o = config_find(c->table, name);
    if (o == NULL) {
        panic("configuration: no option '%s' in the table", name);
    }
    return o;
}

bool config_bool(const struct config *c, const char *name)
{
    const struct config_option *o = option_of(c, name);
    assert(o->type == CONFIG_BOOL);
    return c->values[o - c->table->options].number != 0;
}

int64_t config_number(const struct config *c, const char *name)
{
    const struct config_option *o = option_of(c, name);
    assert(o->type != CONFIG_BOOL);
    assert(o->type != CONFIG_STRING);
    assert(o->type != CONFIG_LIST);
    return c->values[o - c->table->options].number;
}

const char *config_text(const struct config *c, const char *name)
{
    const struct config_option *o = option_of(c, name);
    const struct value *v = &c->values[o - c->table->options];
    if (v->text != NULL) {
        return v->text;
    }
    return o->fallback == NULL ? "" : o->fallback;
}

size_t config_list_count(const struct config *c, const char *name)
{
    assert(option_of(c, name)->type == CONFIG_LIST);
    const char *text = config_text(c, name);
    if (*text == '\0') {
        return 0;
    }
    size_t count = 1;
    for (const char *at = strchr(text, ','); at != NULL; at = strchr(at + 1, ',')) {
        count++;
    }
    return count;
}

bool config_list_item(
    const struct config *c, const char *name, size_t index, char *ret_item, size_t size)
{
    if (index >= config_list_count(c, name)) {
        return false;
    }
    const char *at = config_text(c, name);
    for (size_t i = 0; i < index; i++) {
        at = strchr(at, ',') + 1;
    }
    /* Spaces around the commas of --set are not part of the items. */
    at += strspn(at, " ");
    size_t item_size = strcspn(at, ",");
    while (item_size > 0 && at[item_size - 1] == ' ') {
        item_size--;
    }
    (void)snprintf(ret_item, size, "%.*s", (int)item_size, at);
    return true;
}

const char *config_origin(const struct config *c, const char *name)
{
    const struct value *v = &c->values[option_of(c, name) - c->table->options];
    return v->origin == NULL ? "default" : v->origin;
}
