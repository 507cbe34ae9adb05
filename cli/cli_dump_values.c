/* Store files value by value, and checkpoint files.
 *
 * What a value says is written once, as fields; people get NAME=VALUE of them, programs JSON. */
#include <inttypes.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_dump.h"
#include "cli/cli_parse.h"
#include "cli/cli_text.h"
#include "core/assert.h"
#include "core/ids.h"
#include "core/rbuf.h"
#include "storage/dump_values.h"
#include "storage/segment_format.h"
#include "storage/store.h"

enum {
    FIELDS_MAX = 24,
};

struct field {
    const char *name;
    int64_t number;
    const char *text; /* NULL: number counts. */
};

struct fields {
    struct field list[FIELDS_MAX];
    size_t count;
};

static void add(struct fields *f, const char *name, int64_t number)
{
    assert_cmp(f->count, <, FIELDS_MAX);
    f->list[f->count++] = (struct field){.name = name, .number = number};
}

static void add_text(struct fields *f, const char *name, const char *text)
{
    assert_cmp(f->count, <, FIELDS_MAX);
    f->list[f->count++] = (struct field){.name = name, .text = text};
}

static json_t *fields_json(const struct fields *f)
{
    json_t *object = json_object();
    for (size_t i = 0; i < f->count; i++) {
        const struct field *x = &f->list[i];
        (void)json_object_set_new(object,
                                  x->name,
                                  x->text != NULL ? cli_json_slice(slice_of_string(x->text))
                                                  : json_integer(x->number));
    }
    return object;
}

static void print_fields(FILE *out, const struct fields *f)
{
    for (size_t i = 0; i < f->count; i++) {
        const struct field *x = &f->list[i];
        if (x->text != NULL) {
            cli_put(out, " %s=%s", x->name, x->text);
        } else {
            (void)fprintf(out, " %s=%" PRId64, x->name, x->number);
        }
    }
    (void)fputc('\n', out);
}

/* One item: "<path>: kind name=value ..." for a file, indented for what is in it. */
static enum err print_item(
    struct cli *cli, const char *path, const char *kind, const char *indent, const struct fields *f)
{
    if (!cli_has(cli, "json")) {
        cli_put(cli->out, "%s%s", indent != NULL ? indent : path, indent != NULL ? "" : ": ");
        (void)fputs(kind, cli->out);
        print_fields(cli->out, f);
        return ERR_OK;
    }
    json_t *line = json_pack("{s:o, s:s, s:o}",
                             "file",
                             cli_json_slice(slice_of_string(path)),
                             "kind",
                             kind,
                             kind,
                             fields_json(f));
    return cli_print_json(cli, line) == CLI_OK ? ERR_OK : ERR_BUSY;
}

/* ---- checkpoints ---- */

static void add_checkpoint(struct fields *f, const struct checkpoint_header *h)
{
    add(f, "index", (int64_t)h->index);
    add(f, "term", (int64_t)h->term);
    add(f, "next_offset", h->next_offset);
    add(f, "start_index", (int64_t)h->start_index);
    add(f, "start_offset", h->start_offset);
    add(f, "segment", (int64_t)h->segment);
    add(f, "pos", (int64_t)h->pos);
    add(f, "generation", h->generation);
    add(f, "max_timestamp", h->max_timestamp);
    add(f, "terms", h->terms_count);
    add(f, "points", h->points_count);
    add(f, "configuration_size", h->configuration_size);
    add(f, "state_size", h->state_size);
}

enum err
cli_dump_checkpoint(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos)
{
    *ret_bad_pos = 0;
    struct checkpoint_dump d;
    enum err e = checkpoint_dump_load(io, path, &d);
    if (e != ERR_OK) {
        return e;
    }
    struct fields f = {.count = 0};
    add_checkpoint(&f, &d.checkpoint.header);
    e = print_item(cli, path, "checkpoint", NULL, &f);
    checkpoint_dump_done(&d);
    return e;
}

/* ---- values of a store ---- */

static enum err add_segment(struct fields *f, struct slice value)
{
    struct segment_record r;
    const enum err e = segment_record_decode(value, &r);
    if (e == ERR_OK) {
        add(f, "base_index", (int64_t)r.base.index);
        add(f, "base_offset", r.base.offset);
        add(f, "filled_to", (int64_t)r.filled_to);
        add(f, "written_to", (int64_t)r.written_to);
        add(f, "generation", r.generation);
        add(f, "file_version", r.file_version);
        add(f, "end_index", (int64_t)r.end_index);
        add(f, "end_pos", (int64_t)r.end_pos);
        add(f, "max_timestamp", r.max_timestamp);
        add(f, "entries_size", (int64_t)r.entries_size);
    }
    return e;
}

static enum err add_cut(struct fields *f, struct slice value)
{
    struct cut_record r;
    const enum err e = cut_record_decode(value, &r);
    if (e == ERR_OK) {
        add(f, "index", (int64_t)r.index);
        add(f, "segment", (int64_t)r.segment);
        add(f, "pos", (int64_t)r.pos);
        add(f, "generation", r.generation);
        add(f, "file_version", r.file_version);
        add_text(f, "state", r.is_done != 0 ? "done" : "intent");
    }
    return e;
}

static enum err add_durable(struct fields *f, struct slice value)
{
    struct durable_record r;
    const enum err e = durable_record_decode(value, &r);
    if (e == ERR_OK) {
        add(f, "durable_index", (int64_t)r.durable_index);
        add(f, "commit_index", (int64_t)r.commit_index);
        add(f, "generation", r.generation);
        add(f, "end_segment", (int64_t)r.end_segment);
        add(f, "end_pos", (int64_t)r.end_pos);
    }
    return e;
}

static enum err add_clean(struct fields *f, struct slice value)
{
    struct clean_record r;
    const enum err e = clean_record_decode(value, &r);
    if (e == ERR_OK) {
        add(f, "clean_index", (int64_t)r.clean_index);
        add(f, "clean_offset", r.clean_offset);
    }
    return e;
}

static enum err add_hole(struct fields *f, struct slice value)
{
    struct hole_record r;
    const enum err e = hole_record_decode(value, &r);
    if (e == ERR_OK) {
        add(f, "segment", (int64_t)r.segment);
        add(f, "file_version", (int64_t)r.file_version);
        add(f, "pos", (int64_t)r.pos);
        add(f, "resume_pos", (int64_t)r.resume_pos);
        add(f, "first_index", (int64_t)r.first_index);
        add(f, "next_index", (int64_t)r.next_index);
        add(f, "first_offset", r.first_offset);
        add(f, "next_offset", r.next_offset);
    }
    return e;
}

static enum err add_checkpoint_record(struct fields *f, struct slice value)
{
    struct checkpoint_record r;
    struct slice inline_bytes;
    struct checkpoint c;
    enum err e = checkpoint_record_decode(value, &r, &inline_bytes);
    if (e != ERR_OK) {
        return e;
    }
    if (inline_bytes.size == 0) {
        add(f, "index", (int64_t)r.index);
        add(f, "file_size", (int64_t)r.file_size);
        return ERR_OK;
    }
    e = checkpoint_decode(inline_bytes, &c);
    if (e == ERR_OK) {
        add_checkpoint(f, &c.header);
    }
    return e;
}

static enum err add_vote(struct fields *f, struct slice value)
{
    struct rbuf r = rbuf_over(value.data, value.size);
    const uint64_t term = rbuf_u64(&r);
    const int32_t voted_for = rbuf_i32(&r);
    const enum err e = rbuf_finish(&r);
    if (e == ERR_OK) {
        add(f, "term", (int64_t)term);
        add(f, "voted_for", voted_for);
    }
    return e;
}

static const struct {
    const char *name;
    enum err (*add)(struct fields *f, struct slice value);
} value_kinds[] = {
    [STORE_VOTE] = {"vote", add_vote},
    [STORE_DURABLE] = {"durable", add_durable},
    [STORE_SEGMENT] = {"segment_record", add_segment},
    [STORE_CUT] = {"cut_record", add_cut},
    [STORE_REPLICA] = {"replica", NULL},
    [STORE_CHECKPOINT] = {"checkpoint_record", add_checkpoint_record},
    [STORE_CLEAN] = {"clean", add_clean},
    [STORE_HOLE] = {"hole", add_hole},
};

static enum err
print_value(struct cli *cli, const char *path, const char *id, const struct store_value *v)
{
    const size_t kinds_count = sizeof(value_kinds) / sizeof(value_kinds[0]);
    const bool is_known = v->kind < kinds_count && value_kinds[v->kind].name != NULL;
    struct fields f = {.count = 0};
    if (cli_has(cli, "json")) {
        add_text(&f, "log", id);
    }
    const char *name = is_known ? value_kinds[v->kind].name : "unknown";
    if (is_known && value_kinds[v->kind].add != NULL) {
        const enum err e = value_kinds[v->kind].add(&f, slice_of(v->data, v->size));
        if (e != ERR_OK) {
            add(&f, "sub", (int64_t)v->sub);
            add_text(&f, "BAD", err_name(e));
        }
    } else {
        add(&f, "kind", v->kind);
        add(&f, "sub", (int64_t)v->sub);
        add(&f, "size", v->size);
    }
    return print_item(cli, path, name, "    ", &f);
}

static enum err print_log(struct cli *cli, const char *path, const struct store_log *l)
{
    char topic_id[UUID_TEXT_SIZE];
    char id[UUID_TEXT_SIZE + 16];
    uuid_format(&l->id.topic_id, topic_id);
    (void)snprintf(id, sizeof(id), "%s-%" PRId32, topic_id, l->id.partition);
    struct fields f = {.count = 0};
    add_text(&f, "id", id);
    add(&f, "version", (int64_t)l->version);
    add(&f, "values", l->values_count);
    enum err e = print_item(cli, path, "log", "  ", &f);
    for (uint32_t i = 0; e == ERR_OK && i < l->values_count; i++) {
        e = print_value(cli, path, id, &l->values[i]);
    }
    return e;
}

enum err cli_dump_store(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos)
{
    struct store_dump d;
    enum err e = store_dump_load(io, path, &d);
    if (e != ERR_OK) {
        *ret_bad_pos = d.bad_pos;
        return e;
    }
    struct fields f = {.count = 0};
    add(&f, "shard", d.shard);
    add(&f, "shards", d.shards_count);
    add(&f, "area", d.area);
    add(&f, "epoch", (int64_t)d.epoch);
    add(&f, "logs", (int64_t)d.map.logs_count);
    add(&f, "live_size", (int64_t)d.map.live_size);
    e = print_item(cli, path, "store", NULL, &f);
    list_for_each (n, &d.map.logs) {
        if (e == ERR_OK) {
            e = print_log(cli, path, container_of(n, struct store_log, link));
        }
    }
    store_dump_done(&d);
    return e;
}
