/* Requests about offsets, for tests over rig.h. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kafka/proto/delete_groups.h"
#include "kafka/proto/offset_commit.h"
#include "kafka/proto/offset_delete.h"
#include "kafka/proto/offset_fetch.h"

#include "tests/unit/groups/rig.h"

/* One partition of a request. */
struct offset_line {
    const char *topic;
    int32_t partition;
    int64_t offset;
    const char *metadata;
};

/* Lines of one topic that follow each other are one topic of the request. Generation -1, no member.
 */
struct offset_commit_request *
offsets_commit_request(struct rig *r, const struct offset_line *lines, size_t count);
/* A simple commit of one offset; asserts that it went well. */
void offsets_commit_one(
    struct rig *r, const char *group, const char *topic, int32_t partition, int64_t offset);
/* The error of the only partition of an OffsetCommit. */
int16_t offsets_commit_error(const struct rig_call *call);

struct offset_fetch_request_group *
offsets_fetch_request(struct rig *r, const struct offset_line *lines, size_t count);
/* All topics. */
const struct offset_fetch_response_group *offsets_fetch_everything(struct rig *r,
                                                                   const char *group);
/* Of all partitions of all topics. */
size_t offsets_fetched_count(struct rig *r, const char *group);
/* What is committed of one; asserts that there is no error. */
struct offset_fetch_response_group_topic_partition
offsets_fetch_one(struct rig *r, const char *group, const char *topic, int32_t partition);

struct offset_delete_request *
offsets_delete_request(struct rig *r, const struct offset_line *lines, size_t count);
int16_t offsets_delete_group_error(struct rig *r, const char *group);
