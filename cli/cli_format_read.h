/* The other way round: records out of bytes that a format string describes, as consume with the
 * same format would have printed them.
 *
 *     %k\t%v\n             a key up to the tab, a value up to the newline
 *     %K %S %k%v           keys and values of any bytes: their sizes stand before them, -1: null
 *     %R%s                 the same of values alone, as kcat writes them
 *
 * Rules
 * 1. What has no size ends where the text behind it stands; that text cannot be in it, nor can the
 *    text that ends the record.
 * 2. The last record needs no end text.
 * 3. %t, %o and %p say where a record once was: they are skipped, but for %p, which is handed out.
 *
 * One thread, no shard.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/cli_format.h"
#include "client/client.h"
#include "core/err.h"
#include "core/slice.h"

struct cli_format_reader {
    const struct cli_format *format;
    struct client_header *headers; /* Of the record that was read. */
    size_t headers_capacity;
    char why[CLI_FORMAT_WHY_SIZE]; /* Set by what returns ERR_INVALID. */
};

/* f must outlive r. ERR_INVALID if nobody could tell where a part of a record ends, or a part is
 * missing or stands there twice. */
enum err cli_format_reader_init(struct cli_format_reader *r, const struct cli_format *f);
void cli_format_reader_done(struct cli_format_reader *r);

/* The record at the start of bytes, *ret_size of them. ret_message's slices point into bytes, its
 * headers into r until the next call; partition -1 and no timestamp if the format has none.
 *   ERR_EOF      it goes on behind bytes; never if is_all says that nothing comes behind them
 *   ERR_INVALID  they are not what the format says
 *   ERR_BUSY     no memory */
enum err cli_format_read(struct cli_format_reader *r,
                         struct slice bytes,
                         bool is_all,
                         struct client_message *ret_message,
                         size_t *ret_size);
