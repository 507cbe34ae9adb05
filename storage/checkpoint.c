#include "storage/checkpoint.h"

#include <string.h>

#include "core/assert.h"
#include "core/crc32c.h"

enum {
    CHECKPOINT_VERSION = 1,
    CONFIGURATION_VERSION = 1, /* Without members: of the one voter that there is. */
    RECORD_VERSION = 1,
};

static const uint8_t MAGIC[8] = {'C', 'F', 'L', 'O', 'G', 'C', 'K', 'P'};

static uint32_t crc_of(const struct checkpoint_header *h, struct slice rest)
{
    struct checkpoint_header copy = *h;
    copy.crc = 0;
    return crc32c_extend(crc32c(&copy, sizeof(copy)), rest.data, rest.size);
}

void checkpoint_encode(struct checkpoint *c, struct wbuf *w)
{
    struct checkpoint_header *h = &c->header;
    assert_cmp(c->terms.size % sizeof(struct log_term), ==, 0);
    assert_cmp(c->points.size % sizeof(struct segment_point), ==, 0);
    memcpy(h->magic, MAGIC, sizeof(MAGIC));
    h->version = CHECKPOINT_VERSION;
    h->terms_count = (uint32_t)(c->terms.size / sizeof(struct log_term));
    h->points_count = (uint32_t)(c->points.size / sizeof(struct segment_point));
    h->configuration_version = CONFIGURATION_VERSION;
    h->configuration_size = (uint32_t)c->configuration.size;
    h->state_size = (uint32_t)c->state.size;
    h->file_size =
        sizeof(*h) + c->terms.size + c->points.size + c->configuration.size + c->state.size;

    const size_t start = w->size;
    wbuf_bytes(w, h, sizeof(*h));
    const struct slice parts[] = {c->terms, c->points, c->configuration, c->state};
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        wbuf_bytes(w, parts[i].data, parts[i].size);
    }
    if (wbuf_failure(w) == ERR_OK) {
        uint8_t *out = w->data + start;
        h->crc = crc_of(h, slice_of(out + sizeof(*h), w->size - start - sizeof(*h)));
        memcpy(out, h, sizeof(*h));
    }
}

static struct slice take(struct slice *rest, size_t size)
{
    struct slice part = slice_of(rest->data, size);
    rest->data += size;
    rest->size -= size;
    return part;
}

/* Terms and their indexes rise, offsets do not fall, and all of them are covered. */
static bool are_terms_in_order(const struct checkpoint *c)
{
    struct log_term last = {0};
    for (size_t i = 0; i < c->header.terms_count; i++) {
        struct log_term t;
        memcpy(&t, c->terms.data + i * sizeof(t), sizeof(t));
        if (t.term <= last.term || t.index <= last.index || t.offset < last.offset) {
            return false;
        }
        last = t;
    }
    return last.term == c->header.term && last.index <= c->header.index &&
           last.offset <= c->header.next_offset;
}

static bool are_points_in_order(const struct checkpoint *c)
{
    const struct checkpoint_header *h = &c->header;
    struct segment_point last = {0};
    for (size_t i = 0; i < h->points_count; i++) {
        struct segment_point p;
        memcpy(&p, c->points.data + i * sizeof(p), sizeof(p));
        if (p.pos <= last.pos || p.index <= last.index || p.offset < last.offset ||
            p.index < h->segment ||
            (p.max_timestamp > h->max_timestamp && p.max_timestamp != SEGMENT_TIME_UNKNOWN)) {
            return false;
        }
        last = p;
    }
    return last.pos < h->pos && last.index <= h->index && last.offset <= h->next_offset;
}

enum err checkpoint_decode(struct slice bytes, struct checkpoint *ret_checkpoint)
{
    struct checkpoint c = {0};
    struct checkpoint_header *h = &c.header;
    if (bytes.size < sizeof(*h)) {
        return ERR_CORRUPT;
    }
    struct slice rest = bytes;
    memcpy(h, take(&rest, sizeof(*h)).data, sizeof(*h));
    if (memcmp(h->magic, MAGIC, sizeof(MAGIC)) != 0 || h->file_size != bytes.size ||
        h->crc != crc_of(h, rest)) {
        return ERR_CORRUPT;
    }
    if (h->version != CHECKPOINT_VERSION || h->configuration_version != CONFIGURATION_VERSION) {
        return ERR_NEWER_FORMAT;
    }
    const uint64_t terms_size = h->terms_count * (uint64_t)sizeof(struct log_term);
    const uint64_t points_size = h->points_count * (uint64_t)sizeof(struct segment_point);
    if (rest.size != terms_size + points_size + h->configuration_size + h->state_size) {
        return ERR_CORRUPT;
    }
    c.terms = take(&rest, terms_size);
    c.points = take(&rest, points_size);
    c.configuration = take(&rest, h->configuration_size);
    c.state = take(&rest, h->state_size);
    if (h->index == 0 || h->start_offset < 0 || h->start_offset > h->next_offset ||
        h->segment > h->index + 1 || !are_terms_in_order(&c) || !are_points_in_order(&c)) {
        return ERR_CORRUPT;
    }
    *ret_checkpoint = c;
    return ERR_OK;
}

void checkpoint_record_encode(struct checkpoint_record *r, struct wbuf *w)
{
    r->version = RECORD_VERSION;
    wbuf_bytes(w, r, sizeof(*r));
}

enum err checkpoint_record_decode(struct slice value,
                                  struct checkpoint_record *ret_record,
                                  struct slice *ret_inline)
{
    struct checkpoint_record r;
    if (value.size < sizeof(r)) {
        return ERR_CORRUPT;
    }
    memcpy(&r, take(&value, sizeof(r)).data, sizeof(r));
    if (r.version != RECORD_VERSION) {
        return r.version > RECORD_VERSION ? ERR_NEWER_FORMAT : ERR_CORRUPT;
    }
    const bool has_file = r.file_size > 0;
    if (r.index == 0 || has_file != (value.size == 0) || r.file_size > CHECKPOINT_SIZE_MAX) {
        return ERR_CORRUPT;
    }
    *ret_record = r;
    *ret_inline = value;
    return ERR_OK;
}
