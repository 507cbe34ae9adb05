#include "broker/descriptors.h"

#include <inttypes.h>
#include <stdio.h>

#include "core/assert.h"

enum {
    PROCESS_DESCRIPTORS = 32 + 128, /* Standard streams, signals, locks; what admin/ accepts. */
    SHARD_DESCRIPTORS = 15,         /* Ring, directories while they are flushed. */
    DIR_DESCRIPTORS = 1,            /* A store per shard. */
    FILES_MIN = 16,                 /* Per data directory. */
    FILES_SHARE = 4,  /* At most this part of the limit is for idle files, over all shards ... */
    FILES_IN_USE = 2, /* ... and as many again are in use, by writes, reads and births. */
    CONNS_MIN = 16,
};

static uint64_t shard_needs(const struct descriptors_asked *asked, uint64_t files_max)
{
    return SHARD_DESCRIPTORS + DIR_DESCRIPTORS * asked->dirs_count + asked->listeners_count +
           FILES_IN_USE * files_max;
}

enum err descriptors_divide(const struct descriptors_asked *asked,
                            struct descriptors *ret_descriptors,
                            char why[DESCRIPTORS_WHY_SIZE])
{
    assert_cmp(asked->shards_count, >, 0);
    assert_cmp(asked->dirs_count, >, 0);
    const uint64_t shards_count = asked->shards_count;
    const uint64_t files_min = FILES_MIN * asked->dirs_count;
    const uint64_t needed =
        PROCESS_DESCRIPTORS + shards_count * (shard_needs(asked, files_min) + CONNS_MIN);
    if (asked->limit < needed) {
        (void)snprintf(
            why,
            DESCRIPTORS_WHY_SIZE,
            "the limit on open files is %" PRIu64 ", at least %" PRIu64
            " are needed: raise it (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile= "
            "of docker), or use fewer --cores",
            asked->limit,
            needed);
        return ERR_BUSY;
    }
    uint64_t files_max = asked->limit / (FILES_SHARE * shards_count);
    files_max = files_max < asked->files_max ? files_max : asked->files_max;
    files_max = files_max > files_min ? files_max : files_min;
    uint64_t taken = PROCESS_DESCRIPTORS + shards_count * shard_needs(asked, files_max);
    if (taken + shards_count * CONNS_MIN > asked->limit) {
        files_max = files_min;
        taken = PROCESS_DESCRIPTORS + shards_count * shard_needs(asked, files_max);
    }
    const uint64_t conns_max = (asked->limit - taken) / shards_count;
    *ret_descriptors = (struct descriptors){
        .conns_max = conns_max < asked->conns_max ? (uint32_t)conns_max : asked->conns_max,
        .files_max = (uint32_t)files_max,
    };
    return ERR_OK;
}
