/* What a client may do, for the authorized_operations fields: bits by number of Kafka's
 * AclOperation. Without ACLs everybody may do everything.
 *
 * Shard: any; constant.
 */
#pragma once

enum {
    TOPIC_OPERATIONS = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11,
    GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11,
    CLUSTER_OPERATIONS = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12,
};
