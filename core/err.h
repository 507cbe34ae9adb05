/* One flat list of operating errors for the whole program.
 *
 * Returned by value, never stored in a global. The enum itself is must-use, so every function that
 * returns it is checked by the compiler; (void) states intent. What goes to a Kafka client is
 * another enum, mapped in one switch in kafka/errors.c.
 *
 * Shard: any.
 */
#pragma once

#define ERR_TABLE(X)                                                                   \
    X(OK)                    /* Success. Always zero. */                               \
    X(BUSY)                  /* A bounded queue or pool is full; try again later. */   \
    X(CORRUPT)               /* Stored or received bytes failed a check. */            \
    X(IO)                    /* The kernel refused; the raw errno stands in the op. */ \
    X(NO_SPACE)              /* The disk, or our share of it, is full. */              \
    X(EOF)                   /* The file or message ended before the asked bytes. */   \
    X(EXISTS)                /* The thing to create is there already. */               \
    X(NOT_FOUND)             /* No such file, key, topic or partition. */              \
    X(INVALID)               /* An argument or a request that can never succeed. */    \
    X(UNSUPPORTED)           /* Well-formed, but not offered here. */                  \
    X(TOO_LARGE)             /* Above a configured or structural size limit. */        \
    X(OUT_OF_RANGE)          /* An offset outside of the log. */                       \
    X(CANCELLED)             /* Given up because the owner stops. */                   \
    X(CLOSED)                /* The peer is gone. */                                   \
    X(TIMED_OUT)             /* The deadline passed; the work may still happen. */     \
    X(NOT_LEADER)            /* This broker does not lead the partition. */            \
    X(LEADER_EPOCH_FENCED)   /* The client knows an older leader epoch. */             \
    X(LEADER_EPOCH_UNKNOWN)  /* The client knows a newer leader epoch. */              \
    X(FAILED)                /* The partition or disk is fail-stopped. */              \
    X(RECORD_INVALID)        /* A record batch breaks the format's rules. */           \
    X(TIMESTAMP_INVALID)     /* A record timestamp is outside the topic's limits. */   \
    X(CODEC_UNSUPPORTED)     /* Compression codec unknown or not allowed here. */      \
    X(SEQUENCE_OUT_OF_ORDER) /* Idempotent producer: a gap or an old duplicate. */     \
    X(PRODUCER_EPOCH_STALE)  /* Idempotent producer: fenced by a newer epoch. */       \
    X(TOPIC_UNKNOWN)         /* No topic of that name or id. */                        \
    X(TOPIC_EXISTS)          /* A topic of that name exists. */                        \
    X(TOPIC_NAME_INVALID)    /* Not a legal topic name, or collides with one. */       \
    X(PARTITIONS_INVALID)    /* Partition count out of range. */                       \
    X(REPLICATION_INVALID)   /* Replication factor cannot be met. */                   \
    X(ASSIGNMENT_INVALID)    /* Replicas chosen by hand that cannot be. */             \
    X(CONFIG_INVALID)        /* Unknown configuration name or bad value. */            \
    X(POLICY)                /* The topic's configuration does not allow it. */        \
    X(NEWER_FORMAT)          /* Data written by a newer version of the program. */     \
    X(FOREIGN)               /* Data of another cluster or node. */                    \
    X(LOCKED)                /* Another live process holds the directory. */

enum [[nodiscard]] err{
#define ERR_ENUM(name) ERR_##name,
    ERR_TABLE(ERR_ENUM)
#undef ERR_ENUM
        ERR_COUNT,
};

/* The name without its prefix, for log lines: "BUSY". Never NULL. */
const char *err_name(enum err e);
