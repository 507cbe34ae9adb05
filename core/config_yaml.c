#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "core/assert.h"
#include "core/config_yaml_priv.h"

enum {
    NAME_SIZE_MAX = 256,
    VALUE_SIZE_MAX = 16 * 1024,
};

struct reader {
    const struct config_yaml *input;
    yaml_parser_t parser;
    yaml_event_t event; /* The current one. */
    char where[512];
    char name[NAME_SIZE_MAX];
    char value[VALUE_SIZE_MAX];
    char *why;
};

[[gnu::format(printf, 3, 4)]] static enum err
refuse(struct reader *r, size_t line, const char *format, ...)
{
    int n = snprintf(r->why, CONFIG_WHY_SIZE, "%s:%zu: ", r->input->path, line);
    if (n >= 0 && n < CONFIG_WHY_SIZE) {
        char text[CONFIG_WHY_SIZE]; /* With names as they stand in the file. */
        va_list args;
        va_start(args, format);
        (void)vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        config_print_visibly(r->why + n, CONFIG_WHY_SIZE - (size_t)n, text);
    }
    return ERR_CONFIG_INVALID;
}

static size_t line_of(const struct reader *r)
{
    return r->event.start_mark.line + 1;
}

/* Where the parser stopped. Of bytes that are no text it tells the offset only. */
static enum err refuse_yaml(struct reader *r)
{
    size_t line = r->parser.problem_mark.line;
    size_t column = r->parser.problem_mark.column;
    if (r->parser.error == YAML_READER_ERROR) {
        line = 0;
        column = 0;
        for (size_t i = 0; i < r->parser.problem_offset && i < r->input->size; i++) {
            const bool is_end = r->input->text[i] == '\n';
            line += is_end ? 1 : 0;
            column = is_end ? 0 : column + 1;
        }
    }
    const char *problem = r->parser.problem;
    return refuse(r,
                  line + 1,
                  "column %zu: not valid YAML: %s",
                  column + 1,
                  problem == NULL ? "unreadable characters" : problem);
}

/* Moves to the next event. */
static enum err advance(struct reader *r)
{
    yaml_event_delete(&r->event);
    if (yaml_parser_parse(&r->parser, &r->event) == 0) {
        memset(&r->event, 0, sizeof(r->event));
        return refuse_yaml(r);
    }
    return ERR_OK;
}

static enum err read_scalar(struct reader *r, char *ret_text, size_t size)
{
    const char *text = (const char *)r->event.data.scalar.value;
    size_t length = r->event.data.scalar.length;
    if (length >= size || memchr(text, '\0', length) != NULL) {
        return refuse(r, line_of(r), "this text is too long, or has a zero character");
    }
    memcpy(ret_text, text, length + 1);
    return ERR_OK;
}

/* The event is the start of a list; ends at its end. */
static enum err read_list(struct reader *r)
{
    size_t size = 0;
    r->value[0] = '\0';
    for (;;) {
        enum err e = advance(r);
        if (e != ERR_OK || r->event.type == YAML_SEQUENCE_END_EVENT) {
            return e;
        }
        if (r->event.type != YAML_SCALAR_EVENT) {
            return refuse(r, line_of(r), "the list of '%s' may hold plain values only", r->name);
        }
        if (size > 0 && size + 1 < sizeof(r->value)) {
            r->value[size++] = ',';
        }
        e = read_scalar(r, r->value + size, sizeof(r->value) - size);
        if (e != ERR_OK) {
            return e;
        }
        if (strchr(r->value + size, ',') != NULL) {
            return refuse(r, line_of(r), "an item of the list of '%s' has a comma", r->name);
        }
        size += strlen(r->value + size);
    }
}

/* The event is a key. */
static enum err read_pair(struct reader *r)
{
    if (r->event.type != YAML_SCALAR_EVENT) {
        return refuse(r, line_of(r), "a key must be a plain name");
    }
    enum err e = read_scalar(r, r->name, sizeof(r->name));
    if (e != ERR_OK) {
        return e;
    }
    (void)snprintf(r->where, sizeof(r->where), "%s:%zu", r->input->path, line_of(r));
    e = advance(r);
    if (e != ERR_OK) {
        return e;
    }
    if (r->event.type == YAML_SCALAR_EVENT) {
        e = read_scalar(r, r->value, sizeof(r->value));
    } else if (r->event.type == YAML_SEQUENCE_START_EVENT) {
        e = read_list(r);
    } else if (r->event.type == YAML_MAPPING_START_EVENT) {
        e = refuse(r,
                   line_of(r),
                   "'%s' holds a nested map: write each key in full, as in '%s.name: value'",
                   r->name,
                   r->name);
    } else {
        e = refuse(r, line_of(r), "'%s' refers to an anchor, which is not supported", r->name);
    }
    if (e != ERR_OK) {
        return e;
    }
    return r->input->on_pair(r->input->context, r->where, r->name, r->value, r->why);
}

static enum err read_document(struct reader *r)
{
    enum err e = advance(r);
    if (e != ERR_OK) {
        return e;
    }
    if (r->event.type == YAML_SCALAR_EVENT && r->event.data.scalar.length == 0) {
        return advance(r); /* Nothing but comments. */
    }
    if (r->event.type != YAML_MAPPING_START_EVENT) {
        return refuse(r, line_of(r), "expected 'key: value' lines");
    }
    for (;;) {
        e = advance(r);
        if (e != ERR_OK) {
            return e;
        }
        if (r->event.type == YAML_MAPPING_END_EVENT) {
            return advance(r);
        }
        e = read_pair(r);
        if (e != ERR_OK) {
            return e;
        }
    }
}

static enum err read_stream(struct reader *r)
{
    bool has_document = false;
    for (;;) {
        enum err e = advance(r);
        if (e != ERR_OK) {
            return e;
        }
        if (r->event.type == YAML_STREAM_END_EVENT) {
            return ERR_OK;
        }
        if (r->event.type != YAML_DOCUMENT_START_EVENT) {
            continue; /* The start of the stream, the end of the document. */
        }
        if (has_document) {
            return refuse(r, line_of(r), "only one document per file");
        }
        has_document = true;
        e = read_document(r);
        if (e != ERR_OK) {
            return e;
        }
    }
}

enum err config_yaml_read(const struct config_yaml *y, char ret_why[CONFIG_WHY_SIZE])
{
    struct reader *r = calloc(1, sizeof(*r));
    if (r == NULL) {
        (void)snprintf(ret_why, CONFIG_WHY_SIZE, "%s: out of memory", y->path);
        return ERR_BUSY;
    }
    r->input = y;
    r->why = ret_why;
    enum err e = ERR_BUSY;
    if (yaml_parser_initialize(&r->parser) == 0) {
        (void)snprintf(ret_why, CONFIG_WHY_SIZE, "%s: out of memory", y->path);
        goto out_free;
    }
    yaml_parser_set_input_string(&r->parser, (const unsigned char *)y->text, y->size);
    e = read_stream(r);
    yaml_event_delete(&r->event);
    yaml_parser_delete(&r->parser);

out_free:
    free(r);
    return e;
}
