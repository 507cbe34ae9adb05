/* A segment file, entry by entry. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli_client.h"
#include "cli/cli_dump.h"
#include "cli/cli_parse.h"
#include "cli/cli_record_json.h"
#include "cli/cli_text.h"
#include "cli/cli_time.h"
#include "core/ids.h"
#include "storage/batch.h"
#include "storage/dump.h"

enum {
    RECORDS_SIZE_MAX = 1 << 30,
    PREVIEW_SIZE = 60, /* Bytes of a key or value that people are shown. */
};

struct dump {
    struct cli *cli;
    const char *path;
    bool is_json;
    bool has_records; /* Show them too. */
    struct wbuf records;
    uint64_t entries_count;
    uint64_t bad_count;
};

static const char *const type_names[ENTRY_TYPE_COUNT] = {
    [ENTRY_NONE] = "none",
    [ENTRY_DATA] = "data",
    [ENTRY_NOOP] = "noop",
    [ENTRY_CONFIGURATION] = "configuration",
    [ENTRY_CONTROLLER] = "controller",
    [ENTRY_LOG_START] = "log_start",
    [ENTRY_GAP] = "gap",
};

static const char *type_name(uint8_t type)
{
    return type < ENTRY_TYPE_COUNT ? type_names[type] : "unknown";
}

static const char *codec_name(const struct batch_header *h)
{
    static const char *const names[CODEC_COUNT] = {
        [CODEC_NONE] = "none",
        [CODEC_GZIP] = "gzip",
        [CODEC_SNAPPY] = "snappy",
        [CODEC_LZ4] = "lz4",
        [CODEC_ZSTD] = "zstd",
    };
    const unsigned codec = (unsigned)batch_codec(h);
    return codec < CODEC_COUNT ? names[codec] : "unknown";
}

/* The batch of a data entry; false if it is none, or bad. */
static bool batch_of(const struct dump_item *item, struct batch_header *ret_header)
{
    return item->entry->type == ENTRY_DATA && item->fault == ENTRY_GOOD &&
           batch_header_decode(item->payload, ret_header) == ERR_OK;
}

/* Offsets come from the file: the sum may wrap, which C only allows unsigned. */
static int64_t last_offset_of(const struct batch_header *h)
{
    return (int64_t)((uint64_t)h->base_offset + (uint64_t)(int64_t)h->last_offset_delta);
}

/* ---- records of a batch ---- */

typedef enum err record_fn(struct dump *d, struct record *record, void *context);

/* Calls on_record for each. A batch that is not to be read is said, not fatal: the rest of the file
 * may be good. */
static enum err walk_records(struct dump *d,
                             const struct dump_item *item,
                             const struct batch_header *h,
                             record_fn *on_record,
                             void *context)
{
    struct slice records;
    d->records.size = 0;
    enum err e = batch_records(item->payload, RECORDS_SIZE_MAX, &d->records, &records);
    if (e != ERR_OK) {
        return e;
    }
    struct record_cursor cursor;
    record_cursor_init(&cursor, h, records);
    for (;;) {
        struct record record;
        e = record_next(&cursor, &record);
        if (e != ERR_OK) {
            return e == ERR_EOF ? ERR_OK : e;
        }
        e = on_record(d, &record, context);
        if (e != ERR_OK) {
            return e;
        }
    }
}

/* ---- for people ---- */

/* Printable ASCII, the rest as \xHH, cut where it gets long. */
static void print_preview(FILE *out, struct slice s)
{
    if (slice_is_null(s)) {
        (void)fputs("null", out);
        return;
    }
    (void)fputc('"', out);
    for (size_t i = 0; i < s.size && i < PREVIEW_SIZE; i++) {
        const uint8_t c = s.data[i];
        if (c >= 0x20 && c < 0x7F && c != '"' && c != '\\') {
            (void)fputc(c, out);
        } else {
            (void)fprintf(out, "\\x%02x", c);
        }
    }
    (void)fputs(s.size > PREVIEW_SIZE ? "\"..." : "\"", out);
}

static enum err print_record(struct dump *d, struct record *record, void *context)
{
    (void)context;
    FILE *out = d->cli->out;
    char date[CLI_DATE_SIZE];
    cli_time_format(record->timestamp, date);
    (void)fprintf(out,
                  "             offset=%" PRId64 " timestamp=%s headers=%" PRIu32 " key=",
                  record->offset,
                  date,
                  record->headers_count);
    print_preview(out, record->key);
    (void)fputs(" value=", out);
    print_preview(out, record->value);
    (void)fputc('\n', out);
    return ERR_OK;
}

static void print_batch(struct dump *d, const struct dump_item *item, const struct batch_header *h)
{
    FILE *out = d->cli->out;
    char date[CLI_DATE_SIZE];
    cli_time_format(h->max_timestamp, date);
    (void)fprintf(out,
                  " offsets=%" PRId64 "-%" PRId64 " records=%" PRId32
                  " codec=%s leader_epoch=%" PRId32 " max_timestamp=%s",
                  h->base_offset,
                  last_offset_of(h),
                  h->records_count,
                  codec_name(h),
                  h->leader_epoch,
                  date);
    if (h->producer_id >= 0) {
        (void)fprintf(out,
                      " producer_id=%" PRId64 " producer_epoch=%d base_sequence=%" PRId32,
                      h->producer_id,
                      h->producer_epoch,
                      h->base_sequence);
    }
    (void)fprintf(out,
                  "%s%s\n",
                  (h->attributes & BATCH_TRANSACTIONAL) != 0 ? " transactional" : "",
                  (h->attributes & BATCH_CONTROL) != 0 ? " control" : "");
    if (d->has_records) {
        enum err e = walk_records(d, item, h, print_record, NULL);
        if (e != ERR_OK) {
            (void)fprintf(out, "             records cannot be read: %s\n", err_name(e));
        }
    }
}

static void print_lost(const struct dump *d, int64_t first_offset, int64_t next_offset)
{
    FILE *out = d->cli->out;
    cli_put(out, " file=%s first_offset=%" PRId64, d->path, first_offset);
    if (next_offset == INT64_MAX) {
        (void)fputs(" next_offset=unknown\n", out);
    } else {
        (void)fprintf(out, " next_offset=%" PRId64 "\n", next_offset);
    }
}

static void print_entry(struct dump *d, const struct dump_item *item)
{
    const struct entry_header *e = item->entry;
    FILE *out = d->cli->out;
    (void)fprintf(out,
                  "%12" PRIu64 " %s index=%" PRIu64 " term=%" PRIu64 " size=%" PRIu32
                  " generation=%" PRIu32 " D=%" PRIu64,
                  item->pos,
                  type_name(e->type),
                  e->index,
                  e->term,
                  e->payload_size,
                  e->generation,
                  e->durable_index);
    struct batch_header h;
    if (batch_of(item, &h)) {
        print_batch(d, item, &h);
        return;
    }
    if (item->fault != ENTRY_GOOD) {
        (void)fprintf(out, " BAD=%s", entry_fault_name(item->fault));
        print_lost(d, e->base_offset, e->next_offset);
        return;
    }
    (void)fprintf(out, " next_offset=%" PRId64, e->next_offset);
    if (e->type == ENTRY_GAP) {
        (void)fprintf(out,
                      " base_offset=%" PRId64 " last_index=%" PRIu64 " last_id=%016" PRIx64,
                      e->base_offset,
                      entry_last_index(e),
                      e->entry_id);
    }
    (void)fputc('\n', out);
}

static enum err print_item(void *context, const struct dump_item *item)
{
    struct dump *d = context;
    FILE *out = d->cli->out;
    char id[UUID_TEXT_SIZE];
    switch (item->kind) {
    case DUMP_SEGMENT: {
        const struct segment_header *s = item->segment;
        struct uuid topic_id;
        memcpy(topic_id.bytes, s->topic_id, sizeof(topic_id.bytes));
        uuid_format(&topic_id, id);
        cli_put_line(out,
                     "%s: topic_id=%s partition=%" PRId32 " base_index=%" PRIu64
                     " base_offset=%" PRId64 " generation=%" PRIu32 " file_version=%" PRIu32
                     " salt=%016" PRIx64,
                     d->path,
                     id,
                     s->partition,
                     s->base.index,
                     s->base.offset,
                     s->generation,
                     s->file_version,
                     s->salt);
        break;
    }
    case DUMP_ENTRY:
        d->entries_count++;
        d->bad_count += item->fault != ENTRY_GOOD;
        print_entry(d, item);
        break;
    case DUMP_BAD:
        d->bad_count++;
        (void)fprintf(out,
                      "%12" PRIu64 " BAD=%s end_pos=%" PRIu64,
                      item->pos,
                      entry_fault_name(item->fault),
                      item->end_pos);
        print_lost(d, item->first_offset, item->next_offset);
        break;
    case DUMP_CUT:
        (void)fprintf(out, "%12" PRIu64 " cut from index=%" PRIu64 " on\n", item->pos, item->index);
        break;
    case DUMP_END:
        (void)fprintf(out,
                      "%12" PRIu64 " end: entries=%" PRIu64 " bad=%" PRIu64 "\n",
                      item->pos,
                      d->entries_count,
                      d->bad_count);
        break;
    }
    return ERR_OK;
}

/* ---- for programs: a line of JSON per item ---- */

static enum err add_record_json(struct dump *d, struct record *record, void *context)
{
    (void)d;
    json_t *object = json_pack("{s:I, s:I, s:i}",
                               "offset",
                               (json_int_t)record->offset,
                               "timestamp",
                               (json_int_t)record->timestamp,
                               "headers",
                               (int)record->headers_count);
    bool is_whole = cli_json_set_bytes(object, "key", "key_base64", record->key);
    is_whole &= cli_json_set_bytes(object, "value", "value_base64", record->value);
    is_whole &= json_array_append_new(context, object) == 0;
    return is_whole ? ERR_OK : ERR_BUSY;
}

static json_t *
batch_json(struct dump *d, const struct dump_item *item, const struct batch_header *h)
{
    json_t *batch = json_pack("{s:I, s:I, s:i, s:s, s:i, s:I, s:I, s:i, s:i, s:b, s:b}",
                              "base_offset",
                              (json_int_t)h->base_offset,
                              "last_offset",
                              (json_int_t)last_offset_of(h),
                              "records_count",
                              h->records_count,
                              "codec",
                              codec_name(h),
                              "leader_epoch",
                              h->leader_epoch,
                              "max_timestamp",
                              (json_int_t)h->max_timestamp,
                              "producer_id",
                              (json_int_t)h->producer_id,
                              "producer_epoch",
                              h->producer_epoch,
                              "base_sequence",
                              h->base_sequence,
                              "transactional",
                              (h->attributes & BATCH_TRANSACTIONAL) != 0,
                              "control",
                              (h->attributes & BATCH_CONTROL) != 0);
    if (d->has_records) {
        json_t *list = json_array();
        enum err e = walk_records(d, item, h, add_record_json, list);
        (void)json_object_set_new(batch, "records", list);
        if (e != ERR_OK) {
            (void)json_object_set_new(batch, "records_error", json_string(err_name(e)));
        }
    }
    return batch;
}

static json_t *entry_json(struct dump *d, const struct dump_item *item)
{
    const struct entry_header *e = item->entry;
    json_t *entry = json_pack("{s:s, s:I, s:I, s:i, s:I, s:I, s:I, s:I}",
                              "type",
                              type_name(e->type),
                              "index",
                              (json_int_t)e->index,
                              "term",
                              (json_int_t)e->term,
                              "generation",
                              (int)e->generation,
                              "size",
                              (json_int_t)e->payload_size,
                              "durable_index",
                              (json_int_t)e->durable_index,
                              "base_offset",
                              (json_int_t)e->base_offset,
                              "next_offset",
                              (json_int_t)e->next_offset);
    struct batch_header h;
    if (batch_of(item, &h)) {
        (void)json_object_set_new(entry, "batch", batch_json(d, item, &h));
    }
    if (e->type == ENTRY_GAP) {
        (void)json_object_set_new(
            entry, "last_index", json_integer((json_int_t)entry_last_index(e)));
    }
    return entry;
}

static json_t *segment_json(const struct segment_header *s)
{
    struct uuid topic_id;
    char id[UUID_TEXT_SIZE];
    memcpy(topic_id.bytes, s->topic_id, sizeof(topic_id.bytes));
    uuid_format(&topic_id, id);
    return json_pack("{s:s, s:i, s:I, s:I, s:i, s:I}",
                     "topic_id",
                     id,
                     "partition",
                     (int)s->partition,
                     "base_index",
                     (json_int_t)s->base.index,
                     "base_offset",
                     (json_int_t)s->base.offset,
                     "generation",
                     (int)s->generation,
                     "file_version",
                     (json_int_t)s->file_version);
}

static enum err print_item_json(void *context, const struct dump_item *item)
{
    static const char *const kinds[] = {
        [DUMP_SEGMENT] = "segment",
        [DUMP_ENTRY] = "entry",
        [DUMP_BAD] = "bad",
        [DUMP_CUT] = "cut",
        [DUMP_END] = "end",
    };
    struct dump *d = context;
    json_t *line = json_pack("{s:o, s:I, s:s}",
                             "file",
                             cli_json_slice(slice_of_string(d->path)),
                             "pos",
                             (json_int_t)item->pos,
                             "kind",
                             kinds[item->kind]);
    if (item->kind == DUMP_SEGMENT) {
        (void)json_object_set_new(line, "segment", segment_json(item->segment));
    }
    if (item->kind == DUMP_ENTRY) {
        (void)json_object_set_new(line, "entry", entry_json(d, item));
    }
    if (item->kind == DUMP_BAD) {
        const bool is_known = item->next_offset != INT64_MAX;
        (void)json_object_set_new(line, "end_pos", json_integer((json_int_t)item->end_pos));
        (void)json_object_set_new(line, "first_offset", json_integer(item->first_offset));
        (void)json_object_set_new(
            line, "next_offset", is_known ? json_integer(item->next_offset) : json_null());
    }
    if (item->kind == DUMP_CUT) {
        (void)json_object_set_new(line, "index", json_integer((json_int_t)item->index));
    }
    const bool may_be_bad = item->kind == DUMP_ENTRY || item->kind == DUMP_BAD;
    if (may_be_bad && item->fault != ENTRY_GOOD) {
        (void)json_object_set_new(line, "fault", json_string(entry_fault_name(item->fault)));
    }
    return cli_print_json(d->cli, line) == CLI_OK ? ERR_OK : ERR_BUSY;
}

enum err cli_dump_segment(struct cli *cli, struct io *io, const char *path, uint64_t *ret_bad_pos)
{
    struct dump d = {
        .cli = cli,
        .path = path,
        .is_json = cli_has(cli, "json"),
        .has_records = cli_has(cli, "records"),
    };
    *ret_bad_pos = 0; /* What is bad behind the header is an item. */
    wbuf_init(&d.records, RECORDS_SIZE_MAX);
    enum err e = log_dump(io, path, &d, d.is_json ? print_item_json : print_item);
    wbuf_done(&d.records);
    return e;
}
