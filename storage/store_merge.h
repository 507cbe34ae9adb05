/* Another core count. Which shard a log is on follows from the number of shards, so all stores of a
 * data directory change together:
 *
 *   1. At start, before any store is opened, shard 0 looks at all store files. If each one was made
 *      for today's number of shards, nothing has to be done.
 *   2. If not, it merges all values found into <dir>/store.merge (made under a temporary name,
 *      flushed, renamed), the highest version per log winning, and then removes the old files.
 *   3. Each shard, when it opens its store and finds none, makes one from the values of its logs in
 *      store.merge, which nobody writes to. Values that others have not taken over yet stay there.
 *   4. When all shards have opened their stores, store_drop_stale removes store.merge.
 *
 * A crash at any point starts again with 1, where store.merge counts as a store file: until its
 * rename the old files are all there, after it everything is in it, and what a shard changed since
 * has a higher version. Deleted logs are kept as such, with their version, until 4.
 *
 * Shard: 0, before the loop runs; blocking.
 */
#pragma once

#include "core/err.h"
#include "core/ids.h"

struct shard;

/* Steps 1 and 2, for s->shards_count, of the directory with that id. On error *ret_path (free() it)
 * names the file in question, if it is about one.  ERR_FOREIGN (it was made in another data
 * directory), ERR_NOT_FOUND (a store file is missing though there are logs), ERR_CORRUPT,
 * ERR_NEWER_FORMAT, ERR_NO_SPACE, ERR_IO, ERR_BUSY */
enum err
store_merge(struct shard *s, const char *dir, const struct uuid *directory_id, char **ret_path);

/* "<dir>/store.merge"; free() it. */
char *store_merge_path(const char *dir);
