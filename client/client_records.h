/* Walking what a broker sent of a partition: whole batches, checked by their CRC, unpacked into
 * records a few at a time. Batches that are nobody's records (markers, and with read committed what
 * was aborted) are passed over.
 *
 * Private to client/. Pure; the owner's thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/client.h"
#include "core/wbuf.h"
#include "storage/batch.h"

/* A transaction that ended badly; of one answer. */
struct client_aborted {
    int64_t producer_id;
    int64_t first_offset;
    bool is_over;
};

struct client_walk {
    struct slice batches;           /* Not opened yet. */
    int64_t offset;                 /* Records before it are not handed out. */
    struct client_aborted *aborted; /* The walk's own. */
    size_t aborted_count;
    bool has_batch; /* One is open. */
    struct batch_header batch;
    struct record_cursor cursor;
    struct wbuf unpacked; /* Its records, if it was compressed. */
};

/* Records handed out together; reused from one filling to the next. */
struct client_records {
    struct client_record *records;
    size_t records_count;
    size_t records_capacity;
    struct client_header *headers;
    size_t headers_count;
    size_t headers_capacity;
};

void client_walk_init(struct client_walk *w, struct slice batches, int64_t offset);
void client_walk_done(struct client_walk *w);

/* The offset behind the last whole batch, not below offset. Cuts off what is incomplete: answers
 * end at their size. *ret_is_damaged: something stands there that is no batch; it is not cut off.
 * Looks at headers only. */
int64_t client_walk_end(struct slice *batches, int64_t offset, bool *ret_is_damaged);

/* The next records of one batch; topic must outlive them. ERR_EOF: there are no more. ERR_CORRUPT,
 * ERR_RECORD_INVALID, ERR_TOO_LARGE, ERR_CODEC_UNSUPPORTED: the batch at offset is damaged.
 * ERR_BUSY. After an error w stands where it stood: the same comes again, or with memory the
 * records. */
enum err client_walk_next(struct client_walk *w,
                          const char *topic,
                          int32_t partition,
                          struct client_records *ret_records);

void client_records_done(struct client_records *r);
