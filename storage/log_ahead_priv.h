/* Reading ahead of readers that lag (DESIGN 4.11).
 *
 * A stream is a place in a log where a read ended that came from the disk. A read that begins there
 * shows a reader that goes through the log: from then on the next chunks of the file are read
 * before it asks for them, in large reads, some at a time.
 *
 * Rules:
 *  1. A chunk is bytes of the file that do not change any more: below the tail, in no page. A walk
 *     checks them as it checks what it reads itself, each time: salt, header, chain, CRC.
 *  2. A stream has at most its share, the budget through the streams that read ahead: readers are
 *     equals, and many get smaller chunks. Without a share left a reader reads for itself.
 *  3. Chunks come from free memory, never from what the tail cache has; when others wait for
 *     memory chunks go first.
 *  4. The streams of a log end before it is cut, closed or deleted, those in a segment when that
 *     is retired. So no chunk is older than its bytes, and what nobody came back for within
 *     LOG_AHEAD_IDLE_US is given back.
 *
 * Shard: the owner's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/io.h"
#include "core/list.h"
#include "core/timer.h"
#include "storage/log_gate.h"

struct log;
struct log_segment;
struct log_shared;
struct log_walk;
struct segment_scan;

enum {
    LOG_AHEAD_IDLE_US = 1000 * 1000,
    LOG_AHEAD_STREAMS_MAX = 1024,
    LOG_AHEAD_CHUNKS_MAX = 4,            /* Of a stream. */
    LOG_AHEAD_CHUNK_SIZE_MIN = 64 << 10, /* Unless the options say less. */
};

/* Of a log_shared. */
struct log_ahead {
    struct list streams; /* struct ahead_stream, longest unused first. */
    uint32_t streams_count;
    uint32_t readers_count; /* Of those, read ahead. */
    struct timer idle_timer;
};

/* Part of a file, on its way to memory or there. */
struct ahead_chunk {
    struct list link; /* In ahead_stream.chunks. */
    struct ahead_stream *stream;
    struct buf *buf;
    uint64_t pos;
    uint64_t size;
    bool is_filling; /* Or waits for its turn at the gate. */
    bool is_read;    /* It came. */
    bool is_taken;   /* Some walk was in it. */
    struct gate_wait gate;
    struct io_op op;
};

struct ahead_stream {
    struct list link;            /* In log_ahead.streams; in no list once it ended. */
    struct list log_link;        /* In log.ahead_streams, to the end. */
    struct log_segment *segment; /* Held. */
    int64_t offset;              /* Where the reader comes next. */
    uint64_t pos;                /* What the scan knows there. */
    uint64_t index;
    uint64_t previous_id;
    uint64_t term;
    struct list chunks; /* By pos, one behind the other. */
    uint32_t chunks_count;
    uint64_t chunks_size;
    uint64_t next_pos; /* Of the next chunk. */
    uint32_t fills_count;
    uint32_t runs_count; /* Reads that began where the one before ended. */
    uint64_t used_us;
    struct log_walk *walk; /* The read that is at it. */
    bool is_waited_for;    /* By walk, for a chunk. */
    bool is_ended;         /* Nobody finds it any more; freed when nothing is in flight. */
};

void log_ahead_init(struct log_shared *ls);
/* All logs are closed. */
void log_ahead_done(struct log_shared *ls);

/* A read begins at offset: if a stream stands there w gets it, and stands at its place. False:
 * there is none. */
bool log_ahead_join(struct log_walk *w, int64_t offset);

enum ahead_answer {
    AHEAD_NONE, /* To be read from disk. */
    AHEAD_READY,
    AHEAD_WAIT, /* log_walk_resume comes. */
};
/* Brings [w->need_pos, w->need_pos + w->need_size) into the window if it was read ahead. */
enum ahead_answer log_ahead_take(struct log_walk *w);

/* A read ended; at is the scan behind the last entry that was answered, NULL: none was, or the rest
 * is in memory. w stays as it is. */
void log_ahead_leave(struct log_walk *w, const struct segment_scan *at);

/* No stream of l stands in seg any more. */
void log_ahead_forget(struct log_segment *seg);
/* A cut, close or delete: true when l has no streams any more; else log_poke comes. */
bool log_ahead_stop(struct log *l);
/* Frees chunks that nobody waits for until size bytes came back; false if there were none. */
bool log_ahead_give_back(struct log_shared *ls, size_t size);
