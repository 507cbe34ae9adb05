#include "storage/batch.h"

#include "core/assert.h"
#include "core/crc32c.h"
#include "storage/codec.h"

enum {
    POS_BATCH_LENGTH = 8,
    POS_LEADER_EPOCH = 12,
    POS_MAGIC = 16,
    POS_CRC = 17,
    POS_ATTRIBUTES = 21,
    POS_MAX_TIMESTAMP = 35,
    CRC_START = POS_ATTRIBUTES,
    BATCH_LENGTH_MIN = BATCH_HEADER_SIZE - BATCH_LENGTH_OVERHEAD,
    ZSTD_PRODUCE_VERSION_MIN = 7, /* KIP-110. */
    RECORDS_SIZE_MAX_MIN = 32 << 20,
    RECORDS_RATIO_MAX = 4, /* Where max.message.bytes itself is large. */
    TIMESTAMP_NONE = -1,
};

static uint16_t load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint64_t load_u64(const uint8_t *p)
{
    return (uint64_t)load_u32(p) << 32 | load_u32(p + 4);
}

static void store_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v >> 8);
    p[1] = (uint8_t)v;
}

static void store_u32(uint8_t *p, uint32_t v)
{
    store_u16(p, (uint16_t)(v >> 16));
    store_u16(p + 2, (uint16_t)v);
}

static void store_u64(uint8_t *p, uint64_t v)
{
    store_u32(p, (uint32_t)(v >> 32));
    store_u32(p + 4, (uint32_t)v);
}

/* ---- header -------------------------------------------------------------------------------- */

enum err batch_header_peek(struct slice bytes, struct batch_header *ret_header)
{
    /* The magic first: all that stands before it is the same in every format, what stands behind it
     * is not. */
    const uint8_t *p = bytes.data;
    if (bytes.size <= POS_MAGIC) {
        return ERR_EOF;
    }
    if (p[POS_MAGIC] != BATCH_MAGIC) {
        return ERR_RECORD_INVALID;
    }
    int32_t batch_length = (int32_t)load_u32(p + POS_BATCH_LENGTH);
    if (batch_length < BATCH_LENGTH_MIN) {
        return ERR_CORRUPT;
    }
    if (bytes.size < BATCH_HEADER_SIZE) {
        return ERR_EOF;
    }
    *ret_header = (struct batch_header){
        .base_offset = (int64_t)load_u64(p),
        .batch_length = batch_length,
        .leader_epoch = (int32_t)load_u32(p + POS_LEADER_EPOCH),
        .magic = BATCH_MAGIC,
        .crc = load_u32(p + POS_CRC),
        .attributes = (int16_t)load_u16(p + POS_ATTRIBUTES),
        .last_offset_delta = (int32_t)load_u32(p + 23),
        .base_timestamp = (int64_t)load_u64(p + 27),
        .max_timestamp = (int64_t)load_u64(p + POS_MAX_TIMESTAMP),
        .producer_id = (int64_t)load_u64(p + 43),
        .producer_epoch = (int16_t)load_u16(p + 51),
        .base_sequence = (int32_t)load_u32(p + 53),
        .records_count = (int32_t)load_u32(p + 57),
    };
    return ERR_OK;
}

enum err batch_header_decode(struct slice bytes, struct batch_header *ret_header)
{
    struct batch_header h;
    enum err e = batch_header_peek(bytes, &h);
    if (e != ERR_OK) {
        return e;
    }
    if (batch_size(&h) > bytes.size) {
        return ERR_EOF;
    }
    *ret_header = h;
    return ERR_OK;
}

int64_t batch_first_timestamp(const struct batch_header *h)
{
    const int not_of_records = BATCH_LOG_APPEND_TIME | BATCH_DELETE_HORIZON;
    return (h->attributes & not_of_records) != 0 ? h->max_timestamp : h->base_timestamp;
}

void batch_header_encode(const struct batch_header *h,
                         struct slice records,
                         uint8_t ret_bytes[BATCH_HEADER_SIZE])
{
    uint8_t *p = ret_bytes;
    assert(records.size <= INT32_MAX - BATCH_HEADER_SIZE);
    store_u64(p, (uint64_t)h->base_offset);
    store_u32(p + POS_BATCH_LENGTH, (uint32_t)(BATCH_LENGTH_MIN + records.size));
    store_u32(p + POS_LEADER_EPOCH, (uint32_t)h->leader_epoch);
    p[POS_MAGIC] = BATCH_MAGIC;
    store_u16(p + POS_ATTRIBUTES, (uint16_t)h->attributes);
    store_u32(p + 23, (uint32_t)h->last_offset_delta);
    store_u64(p + 27, (uint64_t)h->base_timestamp);
    store_u64(p + POS_MAX_TIMESTAMP, (uint64_t)h->max_timestamp);
    store_u64(p + 43, (uint64_t)h->producer_id);
    store_u16(p + 51, (uint16_t)h->producer_epoch);
    store_u32(p + 53, (uint32_t)h->base_sequence);
    store_u32(p + 57, (uint32_t)h->records_count);
    uint32_t crc = crc32c(p + CRC_START, BATCH_HEADER_SIZE - CRC_START);
    store_u32(p + POS_CRC, crc32c_extend(crc, records.data, records.size));
}

bool batch_crc_matches(struct slice batch)
{
    return batch.size >= BATCH_HEADER_SIZE &&
           load_u32(batch.data + POS_CRC) == crc32c(batch.data + CRC_START, batch.size - CRC_START);
}

bool batch_needs_rewrite(struct slice batch, const struct batch_header *h)
{
    assert(batch.size >= BATCH_HEADER_SIZE);
    return (int16_t)load_u16(batch.data + POS_ATTRIBUTES) != h->attributes ||
           (int64_t)load_u64(batch.data + POS_MAX_TIMESTAMP) != h->max_timestamp;
}

void batch_stamp(uint8_t head[BATCH_HEAD_SIZE], int64_t base_offset, int32_t leader_epoch)
{
    store_u64(head, (uint64_t)base_offset);
    store_u32(head + POS_LEADER_EPOCH, (uint32_t)leader_epoch);
}

int32_t batch_last_sequence(int32_t base_sequence, int32_t last_offset_delta)
{
    assert(base_sequence >= 0);
    assert(last_offset_delta >= 0);
    return (int32_t)(((uint32_t)base_sequence + (uint32_t)last_offset_delta) & INT32_MAX);
}

enum err
batch_records(struct slice batch, size_t size_max, struct wbuf *w, struct slice *ret_records)
{
    struct batch_header h;
    enum err e = batch_header_decode(batch, &h);
    if (e != ERR_OK) {
        return e == ERR_EOF ? ERR_CORRUPT : e;
    }
    batch.size = batch_size(&h);
    struct slice records = batch_records_part(batch);
    /* A batch that compaction emptied has no stream to decompress. */
    if (batch_codec(&h) == CODEC_NONE || (records.size == 0 && h.records_count == 0)) {
        if (records.size > size_max) {
            return ERR_TOO_LARGE;
        }
        *ret_records = records;
        return ERR_OK;
    }
    size_t start = w->size;
    e = codec_decompress(batch_codec(&h), records, size_max, w);
    if (e == ERR_OK) { /* Nothing may have taken no memory. */
        *ret_records =
            w->size == start ? slice_of("", 0) : slice_of(w->data + start, w->size - start);
    }
    return e;
}

/* ---- records ------------------------------------------------------------------------------- */

/* A record's parts, as views. Parsing works on two plain pointers: this runs for every produced
 * record. */
struct record_parts {
    int64_t timestamp_delta;
    int32_t offset_delta;
    struct slice key;
    struct slice value;
    int32_t headers_count;
    struct slice headers;
};

/* Zigzag, at most 64 bits. NULL for a number that is cut off or too long; else what follows. */
static const uint8_t *
parse_varlong(const uint8_t *p, const uint8_t *end, unsigned bits_max, int64_t *ret_value)
{
    uint64_t value = 0;
    for (unsigned shift = 0; p < end && shift < bits_max; shift += 7) {
        uint64_t low = *p & 0x7f;
        if (bits_max - shift < 7 && low >> (bits_max - shift) != 0) {
            return NULL;
        }
        value |= low << shift;
        if ((*p++ & 0x80) == 0) {
            *ret_value = (int64_t)(value >> 1 ^ -(value & 1));
            return p;
        }
    }
    return NULL;
}

/* Zigzag numbers of one or two bytes, which nearly all are; NULL for any other. */
static inline const uint8_t *parse_short(const uint8_t *p, const uint8_t *end, int32_t *ret_value)
{
    if (end - p < 2) {
        return NULL;
    }
    uint32_t value = p[0];
    if (value < 0x80) {
        p += 1;
    } else if (p[1] < 0x80) {
        value = (value & 0x7f) | (uint32_t)p[1] << 7;
        p += 2;
    } else {
        return NULL;
    }
    *ret_value = (int32_t)(value >> 1 ^ -(value & 1));
    return p;
}

static inline const uint8_t *parse_i32(const uint8_t *p, const uint8_t *end, int32_t *ret_value)
{
    const uint8_t *next = parse_short(p, end, ret_value);
    if (next != NULL) {
        return next;
    }
    int64_t value;
    next = parse_varlong(p, end, 32, &value);
    if (next != NULL) {
        *ret_value = (int32_t)value;
    }
    return next;
}

static inline const uint8_t *parse_i64(const uint8_t *p, const uint8_t *end, int64_t *ret_value)
{
    int32_t value;
    const uint8_t *next = parse_short(p, end, &value);
    if (next == NULL) {
        return parse_varlong(p, end, 64, ret_value);
    }
    *ret_value = value;
    return next;
}

/* Length and bytes; -1 is null. */
static inline const uint8_t *
parse_bytes(const uint8_t *p, const uint8_t *end, struct slice *ret_bytes)
{
    int32_t size;
    p = parse_i32(p, end, &size);
    if (p == NULL || size < -1 || size > end - p) {
        return NULL;
    }
    if (size == -1) {
        *ret_bytes = (struct slice){0};
        return p;
    }
    *ret_bytes = slice_of(p, (size_t)size);
    return p + size;
}

/* One record, but what is in its headers. NULL if it breaks the format; else what follows. */
static const uint8_t *
parse_record(const uint8_t *p, const uint8_t *end, struct record_parts *ret_parts)
{
    int32_t size;
    p = parse_i32(p, end, &size);
    if (p == NULL || size < 1 || size > end - p) {
        return NULL;
    }
    end = p + size;
    p++; /* Attributes: none are defined, readers ignore them. */
    p = parse_i64(p, end, &ret_parts->timestamp_delta);
    if (p != NULL) {
        p = parse_i32(p, end, &ret_parts->offset_delta);
    }
    if (p != NULL) {
        p = parse_bytes(p, end, &ret_parts->key);
    }
    if (p != NULL) {
        p = parse_bytes(p, end, &ret_parts->value);
    }
    if (p != NULL) {
        p = parse_i32(p, end, &ret_parts->headers_count);
    }
    if (p == NULL || ret_parts->headers_count < 0) {
        return NULL;
    }
    ret_parts->headers = slice_of(p, (size_t)(end - p));
    return end;
}

static const uint8_t *
parse_header(const uint8_t *p, const uint8_t *end, struct record_header *ret_header)
{
    p = parse_bytes(p, end, &ret_header->key);
    if (p == NULL || slice_is_null(ret_header->key)) {
        return NULL;
    }
    return parse_bytes(p, end, &ret_header->value);
}

/* True if exactly the declared number of headers fills the record. */
static bool are_headers_valid(const struct record_parts *parts)
{
    const uint8_t *p = parts->headers.data;
    const uint8_t *end = p + parts->headers.size;
    for (int32_t i = 0; i < parts->headers_count; i++) {
        struct record_header header;
        p = parse_header(p, end, &header);
        if (p == NULL) {
            return false;
        }
    }
    return p == end;
}

void record_cursor_init(struct record_cursor *c, const struct batch_header *h, struct slice records)
{
    c->header = *h;
    c->records = rbuf_over(records.data, records.size);
    c->records_left = h->records_count;
}

/* Wraps where the sum leaves the range: the number came from outside. */
static int64_t add_wrapping(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

enum err record_next(struct record_cursor *c, struct record *ret_record)
{
    const struct batch_header *h = &c->header;
    if (c->records_left <= 0) {
        return rbuf_left(&c->records) == 0 ? ERR_EOF : ERR_RECORD_INVALID;
    }
    struct record_parts parts;
    const uint8_t *next = parse_record(c->records.cursor, c->records.end, &parts);
    if (next == NULL) {
        return ERR_RECORD_INVALID;
    }
    bool is_append_time = (h->attributes & BATCH_LOG_APPEND_TIME) != 0;
    *ret_record = (struct record){
        .offset = add_wrapping(h->base_offset, parts.offset_delta),
        .timestamp = is_append_time ? h->max_timestamp
                                    : add_wrapping(h->base_timestamp, parts.timestamp_delta),
        .key = parts.key,
        .value = parts.value,
        .headers_count = (uint32_t)parts.headers_count,
        .headers = rbuf_over(parts.headers.data, parts.headers.size),
    };
    c->records.cursor = next;
    c->records_left--;
    return ERR_OK;
}

enum err record_next_header(struct record *r, struct record_header *ret_header)
{
    if (r->headers_count == 0) {
        return rbuf_left(&r->headers) == 0 ? ERR_EOF : ERR_RECORD_INVALID;
    }
    struct record_header header;
    const uint8_t *next = parse_header(r->headers.cursor, r->headers.end, &header);
    if (next == NULL) {
        return ERR_RECORD_INVALID;
    }
    r->headers.cursor = next;
    r->headers_count--;
    *ret_header = header;
    return ERR_OK;
}

/* ---- what a leader looks at ----------------------------------------------------------------- */

/* Of a record, what the leader's checks ask. */
struct record_facts {
    int64_t timestamp_delta;
    int32_t offset_delta;
    bool has_key;
};

enum {
    RAW_NULL = 1, /* Length -1. */
    RAW_MAX = 1 << 14,
    /* Size, attributes, three numbers and one more may be read before anybody looks at the end. */
    PLAIN_SIZE_MIN = 11,
};

/* A number as it stands at pos, zigzag. False if it is longer than two bytes, which must be
 * readable.
 */
static inline bool take_short(const uint8_t *p, size_t *pos, uint32_t *ret_raw)
{
    uint32_t raw = p[(*pos)++];
    if (raw >= 0x80) {
        const uint32_t high = p[(*pos)++];
        if (high >= 0x80) {
            return false;
        }
        raw = (raw & 0x7f) | high << 7;
    }
    *ret_raw = raw;
    return true;
}

static inline int32_t value_of_raw(uint32_t raw)
{
    return (int32_t)(raw >> 1 ^ -(raw & 1));
}

/* NULL if the record breaks the format. */
static const uint8_t *
look_at_record(const uint8_t *p, const uint8_t *end, struct record_facts *ret_facts)
{
    struct record_parts parts;
    const uint8_t *next = parse_record(p, end, &parts);
    if (next == NULL || !are_headers_valid(&parts)) {
        return NULL;
    }
    *ret_facts = (struct record_facts){
        .timestamp_delta = parts.timestamp_delta,
        .offset_delta = parts.offset_delta,
        .has_key = !slice_is_null(parts.key),
    };
    return next;
}

/* ---- what a leader checks ------------------------------------------------------------------ */

static enum err fault(struct batch_fault *f, enum err e, const char *message, int32_t record_index)
{
    *f = (struct batch_fault){.message = message, .record_index = record_index};
    return e;
}

size_t batch_records_size_max(uint32_t batch_size_max)
{
    size_t size = (size_t)batch_size_max * RECORDS_RATIO_MAX;
    if (size > INT32_MAX) {
        size = INT32_MAX;
    }
    return size < RECORDS_SIZE_MAX_MIN ? RECORDS_SIZE_MAX_MIN : size;
}

/* What the header alone shows. */
static enum err
check_header(const struct batch_header *h, const struct batch_rules *rules, struct batch_fault *f)
{
    if (h->base_offset != 0) {
        return fault(f, ERR_RECORD_INVALID, "the base offset of a produced batch must be 0", -1);
    }
    if (h->records_count <= 0) {
        return fault(f, ERR_RECORD_INVALID, "a batch must hold at least one record", -1);
    }
    if (h->last_offset_delta != h->records_count - 1) {
        return fault(
            f, ERR_RECORD_INVALID, "last offset delta + 1 must equal the record count", -1);
    }
    if ((h->attributes & BATCH_CONTROL) != 0) {
        return fault(f, ERR_RECORD_INVALID, "clients may not write control batches", -1);
    }
    if ((h->attributes & BATCH_DELETE_HORIZON) != 0) {
        return fault(f, ERR_RECORD_INVALID, "clients may not set a delete horizon", -1);
    }
    if (batch_codec(h) >= CODEC_COUNT) {
        return fault(f, ERR_CODEC_UNSUPPORTED, "unknown compression codec", -1);
    }
    if (batch_codec(h) == CODEC_ZSTD && rules->produce_version < ZSTD_PRODUCE_VERSION_MIN) {
        return fault(f, ERR_CODEC_UNSUPPORTED, "zstd needs Produce version 7 or newer", -1);
    }
    if (h->producer_id >= 0 && (h->base_sequence < 0 || h->producer_epoch < 0)) {
        return fault(f,
                     ERR_RECORD_INVALID,
                     "a batch with a producer id needs a producer epoch and a base sequence",
                     -1);
    }
    if (h->producer_id < 0 && (h->attributes & BATCH_TRANSACTIONAL) != 0) {
        return fault(f, ERR_RECORD_INVALID, "a transactional batch needs a producer id", -1);
    }
    return ERR_OK;
}

static int64_t add_saturating(int64_t a, int64_t b)
{
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) {
        return b < 0 ? INT64_MIN : INT64_MAX;
    }
    return sum;
}

/* The window that record timestamps must lie in. */
struct timestamp_range {
    int64_t min;
    int64_t max;
};

static struct timestamp_range range_of(const struct batch_rules *rules)
{
    return (struct timestamp_range){
        .min = rules->timestamp_before_ms_max == INT64_MAX
                   ? INT64_MIN
                   : add_saturating(rules->wall_ms, -rules->timestamp_before_ms_max),
        .max = add_saturating(rules->wall_ms, rules->timestamp_after_ms_max),
    };
}

void batch_walk_init(struct batch_walk *w,
                     struct batch_header *h,
                     struct slice records,
                     const struct batch_rules *rules)
{
    *w = (struct batch_walk){
        .h = h,
        .rules = rules,
        .records = records.size == 0 ? slice_of("", 0) : records, /* An address, in any case. */
        .timestamp_max = TIMESTAMP_NONE,
    };
}

/* One record, parsed already. */
static enum err check_record(struct batch_walk *w,
                             const struct record_facts *facts,
                             const struct timestamp_range *range,
                             struct batch_fault *f)
{
    const struct batch_rules *rules = w->rules;
    const int32_t i = w->index;
    if (facts->offset_delta != i) {
        return fault(f, ERR_RECORD_INVALID, "offset deltas must count up from 0", i);
    }
    if (rules->is_compacted && !facts->has_key) {
        return fault(f, ERR_RECORD_INVALID, "a compacted topic takes no record without key", i);
    }
    const int64_t timestamp = add_wrapping(w->h->base_timestamp, facts->timestamp_delta);
    if (!rules->is_log_append_time && timestamp != TIMESTAMP_NONE) {
        if (timestamp < range->min || timestamp > range->max) {
            return fault(f,
                         ERR_TIMESTAMP_INVALID,
                         "record timestamp outside message.timestamp.before/after.max.ms",
                         i);
        }
    } else if ((w->h->attributes & BATCH_LOG_APPEND_TIME) != 0) {
        return fault(f, ERR_TIMESTAMP_INVALID, "clients may not set LogAppendTime", i);
    }
    if (timestamp > w->timestamp_max) {
        w->timestamp_max = timestamp;
    }
    return ERR_OK;
}

/* What the rules come to for plain records. */
struct plain_rules {
    int32_t delta_min; /* Of timestamps. */
    int32_t delta_max; /* Below delta_min: no record passes. */
    uint32_t null_key; /* The length, as it stands there, that says so; RAW_MAX: none may. */
};

static int32_t clamp_i32(int64_t v)
{
    return v < INT32_MIN ? INT32_MIN : v > INT32_MAX ? INT32_MAX : (int32_t)v;
}

static struct plain_rules plain_rules_of(const struct batch_walk *w)
{
    struct plain_rules plain = {
        .delta_min = INT32_MIN,
        .delta_max = INT32_MAX,
        .null_key = w->rules->is_compacted ? RAW_MAX : RAW_NULL,
    };
    const int64_t base = w->h->base_timestamp;
    const bool may_wrap = base < INT64_MIN / 2 || base > INT64_MAX / 2;
    if (may_wrap || (w->h->attributes & BATCH_LOG_APPEND_TIME) != 0) {
        plain.delta_max = plain.delta_min;
        plain.delta_min = INT32_MAX;
    } else if (!w->rules->is_log_append_time) {
        const struct timestamp_range range = range_of(w->rules);
        plain.delta_min = clamp_i32(add_saturating(range.min, -base));
        plain.delta_max = clamp_i32(add_saturating(range.max, -base));
    }
    return plain;
}

/* Whether a length may stand there: none is negative but that of null. */
static inline bool is_length(uint32_t raw, uint32_t null)
{
    return (raw & 1) == 0 || raw == null;
}

/* The size of what nearly all records are: no number takes more than two bytes, there are no
 * headers, and the offset is the one that is due. 0: it is not one of these, which says nothing
 * about its worth. At least PLAIN_SIZE_MIN bytes are left. */
static inline size_t look_at_plain(const uint8_t *p,
                                   size_t left,
                                   const struct plain_rules *plain,
                                   uint32_t index,
                                   int32_t *ret_timestamp_delta)
{
    size_t pos = 0;
    uint32_t raw;
    if (!take_short(p, &pos, &raw) || (raw & 1) != 0) {
        return 0;
    }
    const size_t size = pos + (raw >> 1);
    pos++; /* Attributes. */
    if (size > left || !take_short(p, &pos, &raw)) {
        return 0;
    }
    const int32_t timestamp_delta = value_of_raw(raw);
    if (!take_short(p, &pos, &raw) || raw != 2 * index) {
        return 0;
    }
    if (!take_short(p, &pos, &raw) || !is_length(raw, plain->null_key)) {
        return 0;
    }
    pos += raw >> 1; /* Nothing, for null. */
    if (pos + 2 > size || !take_short(p, &pos, &raw) || !is_length(raw, RAW_NULL)) {
        return 0;
    }
    pos += raw >> 1;
    /* What is left is the number of headers. */
    if (pos + 1 != size || p[pos] != 0) {
        return 0;
    }
    *ret_timestamp_delta = timestamp_delta;
    return size;
}

/* Passes plain records that keep the rules, up to pause or the first that is no such. Returns
 * where. This runs for every produced record. */
static const uint8_t *pass_plain(struct batch_walk *w,
                                 const struct plain_rules *plain,
                                 const uint8_t *p,
                                 const uint8_t *pause)
{
    const uint8_t *end = w->records.data + w->records.size;
    const uint32_t count = (uint32_t)w->h->records_count;
    const uint32_t first = (uint32_t)w->index;
    uint32_t index = first;
    int32_t delta_max = INT32_MIN;
    while (index < count && p < pause && end - p >= PLAIN_SIZE_MIN) {
        int32_t delta;
        const size_t size = look_at_plain(p, (size_t)(end - p), plain, index, &delta);
        if (size == 0 || delta < plain->delta_min || delta > plain->delta_max) {
            break;
        }
        delta_max = delta > delta_max ? delta : delta_max;
        index++;
        p += size;
    }
    if (index > first) {
        const int64_t timestamp = w->h->base_timestamp + delta_max;
        w->timestamp_max = timestamp > w->timestamp_max ? timestamp : w->timestamp_max;
    }
    w->index = (int32_t)index;
    return p;
}

enum err batch_walk_step(struct batch_walk *w, size_t size_max, struct batch_fault *f)
{
    assert(!w->is_done);
    const uint8_t *p = w->records.data + w->pos;
    const uint8_t *end = w->records.data + w->records.size;
    const size_t left = w->records.size - w->pos;
    const uint8_t *pause = p + (size_max < left ? size_max : left);
    const struct timestamp_range range = range_of(w->rules);
    const struct plain_rules plain = plain_rules_of(w);
    for (;;) {
        p = pass_plain(w, &plain, p, pause);
        if (w->index == w->h->records_count) {
            break;
        }
        if (p >= pause && p < end) {
            w->pos = (size_t)(p - w->records.data);
            return ERR_OK;
        }
        struct record_facts facts;
        p = look_at_record(p, end, &facts);
        if (p == NULL) {
            return fault(f, ERR_RECORD_INVALID, "a record breaks the format", w->index);
        }
        enum err e = check_record(w, &facts, &range, f);
        if (e != ERR_OK) {
            return e;
        }
        w->index++;
    }
    if (p != end) {
        return fault(f, ERR_RECORD_INVALID, "bytes follow the declared number of records", -1);
    }
    w->h->max_timestamp = w->timestamp_max;
    w->is_done = true;
    return ERR_OK;
}

enum err batch_check_records(struct batch_header *h,
                             struct slice records,
                             const struct batch_rules *rules,
                             struct batch_fault *f)
{
    struct batch_walk w;
    batch_walk_init(&w, h, records, rules);
    return batch_walk_step(&w, SIZE_MAX, f);
}

enum err batch_judge_decompression(enum err e, struct batch_fault *f)
{
    if (e == ERR_TOO_LARGE) {
        return fault(f, e, "the compressed records grow beyond what is accepted", -1);
    }
    if (e == ERR_CORRUPT) {
        /* The CRC matched, so this is what the client made: sending it again cannot help. */
        return fault(f, ERR_RECORD_INVALID, "the compressed records cannot be decompressed", -1);
    }
    return fault(f, e, "no memory to decompress the records", -1);
}

/* Compressed ones, too, on every topic (docs/decisions/0008). */
static enum err check_content(struct slice batch,
                              struct batch_header *h,
                              const struct batch_rules *rules,
                              struct batch_fault *f)
{
    struct slice records = batch_records_part(batch);
    if (batch_codec(h) == CODEC_NONE) {
        return batch_check_records(h, records, rules, f);
    }
    struct wbuf w;
    size_t size_max = batch_records_size_max(rules->size_max);
    wbuf_init(&w, size_max);
    enum err e = codec_decompress(batch_codec(h), records, size_max, &w);
    if (e == ERR_OK) {
        e = batch_check_records(h, wbuf_slice(&w), rules, f);
    } else {
        e = batch_judge_decompression(e, f);
    }
    wbuf_done(&w);
    return e;
}

enum err batch_check_head(struct slice bytes,
                          const struct batch_rules *rules,
                          struct batch_header *ret_header,
                          struct batch_fault *ret_fault)
{
    struct batch_fault *f = ret_fault;
    if (bytes.size == 0) {
        return fault(f, ERR_RECORD_INVALID, "a partition's records must hold one batch", -1);
    }
    struct batch_header h;
    enum err e = batch_header_decode(bytes, &h);
    if (e == ERR_RECORD_INVALID) {
        return fault(f, e, "only record batches of magic 2 are accepted", -1);
    }
    if (e != ERR_OK) {
        return fault(
            f, ERR_RECORD_INVALID, "the batch is truncated or its length is impossible", -1);
    }
    if (batch_size(&h) != bytes.size) {
        return fault(f, ERR_RECORD_INVALID, "a partition's records must hold one batch", -1);
    }
    if (bytes.size > rules->size_max) {
        return fault(f, ERR_TOO_LARGE, "the batch is larger than max.message.bytes", -1);
    }
    /* Before anything else in the header is believed. */
    if (!batch_crc_matches(bytes)) {
        return fault(f, ERR_CORRUPT, "the batch's CRC does not match", -1);
    }
    e = check_header(&h, rules, f);
    if (e != ERR_OK) {
        return e;
    }
    *ret_header = h;
    return ERR_OK;
}

void batch_set_by_leader(struct batch_header *h, const struct batch_rules *rules)
{
    h->attributes = (int16_t)(h->attributes & ~BATCH_LOG_APPEND_TIME);
    if (rules->is_log_append_time) {
        h->attributes |= BATCH_LOG_APPEND_TIME;
        h->max_timestamp = rules->wall_ms;
    }
}

enum err batch_check_produced(struct slice bytes,
                              const struct batch_rules *rules,
                              struct batch_header *ret_header,
                              struct batch_fault *ret_fault)
{
    struct batch_header h;
    enum err e = batch_check_head(bytes, rules, &h, ret_fault);
    if (e == ERR_OK) {
        e = check_content(bytes, &h, rules, ret_fault);
    }
    if (e != ERR_OK) {
        return e;
    }
    batch_set_by_leader(&h, rules);
    *ret_header = h;
    return ERR_OK;
}

/* ---- building ------------------------------------------------------------------------------ */

static size_t varlong_size(int64_t v)
{
    uint64_t zigzag = (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
    size_t size = 1;
    while (zigzag >= 0x80) {
        zigzag >>= 7;
        size++;
    }
    return size;
}

static size_t bytes_size(struct slice s)
{
    return slice_is_null(s) ? 1 : varlong_size((int64_t)s.size) + s.size;
}

static uint8_t *write_varlong(uint8_t *p, int64_t v)
{
    uint64_t zigzag = (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
    while (zigzag >= 0x80) {
        *p++ = (uint8_t)(zigzag | 0x80);
        zigzag >>= 7;
    }
    *p++ = (uint8_t)zigzag;
    return p;
}

static uint8_t *write_bytes(uint8_t *p, struct slice s)
{
    if (slice_is_null(s)) {
        return write_varlong(p, -1);
    }
    p = write_varlong(p, (int64_t)s.size);
    if (s.size > 0) {
        memcpy(p, s.data, s.size);
    }
    return p + s.size;
}

void batch_builder_init(struct batch_builder *b, size_t size_max)
{
    assert(size_max >= BATCH_HEADER_SIZE);
    *b = (struct batch_builder){.records_count = 0};
    size_t records_size_max = size_max - BATCH_HEADER_SIZE;
    wbuf_init(&b->records, records_size_max < INT32_MAX ? records_size_max : INT32_MAX);
}

void batch_builder_init_in_place(struct batch_builder *b, size_t size_max)
{
    assert(size_max >= BATCH_HEADER_SIZE);
    *b = (struct batch_builder){.head_size = BATCH_HEADER_SIZE};
    wbuf_init(&b->records, size_max < INT32_MAX ? size_max : INT32_MAX);
    (void)wbuf_extend(&b->records,
                      BATCH_HEADER_SIZE); /* Without memory nothing is added, either. */
}

void batch_builder_done(struct batch_builder *b)
{
    wbuf_done(&b->records);
}

enum err batch_builder_add(struct batch_builder *b, const struct batch_record *record)
{
    const int64_t timestamp = record->timestamp;
    const struct record_header *headers = record->headers;
    const uint32_t headers_count = record->headers_count;
    bool is_first = b->records_count == 0;
    int64_t timestamp_delta =
        is_first ? 0 : (int64_t)((uint64_t)timestamp - (uint64_t)b->base_timestamp);
    size_t body_size = 1 + varlong_size(timestamp_delta) + varlong_size(b->records_count) +
                       bytes_size(record->key) + bytes_size(record->value) +
                       varlong_size(headers_count);
    for (uint32_t i = 0; i < headers_count; i++) {
        body_size += bytes_size(headers[i].key) + bytes_size(headers[i].value);
    }
    size_t size = varlong_size((int64_t)body_size) + body_size;
    if (size > b->records.size_max - b->records.size || b->records_count == INT32_MAX) {
        return ERR_TOO_LARGE;
    }
    uint8_t *p = wbuf_extend(&b->records, size);
    if (p == NULL) {
        return wbuf_failure(&b->records);
    }
    const uint8_t *start = p;
    p = write_varlong(p, (int64_t)body_size);
    *p++ = 0; /* Attributes. */
    p = write_varlong(p, timestamp_delta);
    p = write_varlong(p, b->records_count);
    p = write_bytes(p, record->key);
    p = write_bytes(p, record->value);
    p = write_varlong(p, headers_count);
    for (uint32_t i = 0; i < headers_count; i++) {
        assert(!slice_is_null(headers[i].key));
        p = write_bytes(p, headers[i].key);
        p = write_bytes(p, headers[i].value);
    }
    assert_cmp(p - start, ==, size);
    if (is_first) {
        b->base_timestamp = timestamp;
        b->max_timestamp = timestamp;
    } else if (timestamp > b->max_timestamp) {
        b->max_timestamp = timestamp;
    }
    b->records_count++;
    return ERR_OK;
}

/* In front of the records, which are at the end of w from start + BATCH_HEADER_SIZE on. */
static void put_header(const struct batch_builder *b,
                       enum batch_codec codec,
                       const struct batch_identity *identity,
                       struct wbuf *w,
                       size_t start)
{
    static const struct batch_identity nobody = {
        .producer_id = -1, .producer_epoch = -1, .base_sequence = -1};
    if (identity == NULL) {
        identity = &nobody;
    }
    const struct batch_header h = {
        .leader_epoch = -1,
        .attributes = (int16_t)codec,
        .last_offset_delta = b->records_count - 1,
        .base_timestamp = b->base_timestamp,
        .max_timestamp = b->max_timestamp,
        .producer_id = identity->producer_id,
        .producer_epoch = identity->producer_epoch,
        .base_sequence = identity->base_sequence,
        .records_count = b->records_count,
    };
    size_t records_pos = start + BATCH_HEADER_SIZE;
    batch_header_encode(
        &h, slice_of(w->data + records_pos, w->size - records_pos), w->data + start);
}

enum err batch_builder_finish(const struct batch_builder *b,
                              enum batch_codec codec,
                              const struct batch_identity *identity,
                              struct wbuf *w)
{
    assert(b->records_count > 0);
    assert_cmp(b->head_size, ==, 0);
    size_t start = w->size;
    if (wbuf_extend(w, BATCH_HEADER_SIZE) == NULL) {
        return wbuf_failure(w);
    }
    enum err e = codec_compress(codec, wbuf_slice(&b->records), w);
    if (e != ERR_OK) {
        w->size = start;
        return e;
    }
    put_header(b, codec, identity, w, start);
    return ERR_OK;
}

void batch_builder_take(struct batch_builder *b,
                        const struct batch_identity *identity,
                        struct wbuf *ret_batch)
{
    assert(b->records_count > 0);
    assert_cmp(b->head_size, ==, BATCH_HEADER_SIZE);
    put_header(b, CODEC_NONE, identity, &b->records, 0);
    *ret_batch = b->records;
    *b = (struct batch_builder){0};
}
