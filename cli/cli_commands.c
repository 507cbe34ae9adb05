/* The table of all commands. */
#include <stdint.h>

#include "cli/cli_command.h"

const struct cli_option CLI_OPTION_BROKERS = {
    .letter = 'b',
    .name = "brokers",
    .kind = CLI_TEXT,
    .value = "HOST:PORT,...",
    .help = "brokers to ask (default: COREFLUME_BROKERS, else 127.0.0.1:9092)",
};

const struct cli_option CLI_OPTION_JSON = {
    .name = "json",
    .help = "output for programs",
};

const struct cli_option CLI_OPTION_HELP = {
    .letter = 'h',
    .name = "help",
    .help = "this text",
};

const char CLI_ABOUT[] = "a message broker that speaks the Kafka protocol";

const char CLI_ABOUT_OPTIONS[] =
    "Options may stand anywhere. Brokers: -b HOST:PORT, or COREFLUME_BROKERS, else "
    "127.0.0.1:9092.\n--json gives output for programs. Exit codes: 0 ok, 1 failed, 2 wrong "
    "usage.\n";

/* clang-format off */
/* What the broker's own command line takes (broker/arguments.c); here for help only. */
static const struct cli_option start_options[] = {
    {.name = "config", .kind = CLI_TEXT, .value = "FILE", .help = "YAML file of options (docs/configuration.md)"},
    {.name = "set", .kind = CLI_TEXT, .value = "NAME=VALUE", .help = "one option", .is_repeatable = true},
    {.name = "data-dir", .kind = CLI_TEXT, .value = "DIR", .help = "where the data lie (default ./data)", .is_repeatable = true},
    {.name = "kafka", .kind = CLI_TEXT, .value = "HOST:PORT", .help = "where Kafka clients are served (default 127.0.0.1:9092)"},
    {.name = "advertise", .kind = CLI_TEXT, .value = "HOST:PORT", .help = "what clients are told to connect to"},
    {.name = "admin", .kind = CLI_TEXT, .value = "HOST:PORT", .help = "admin HTTP server (default 127.0.0.1:9644)"},
    {.name = "node-id", .kind = CLI_TEXT, .value = "N", .help = "number of the node (default 1)"},
    {.name = "rack", .kind = CLI_TEXT, .value = "NAME", .help = "where the node stands"},
    {.name = "cores", .kind = CLI_TEXT, .value = "LIST", .help = "CPUs to run on: 0-3,6 (default: all)"},
    {.name = "memory", .kind = CLI_TEXT, .value = "SIZE", .help = "memory for buffers: 512MiB"},
    {.name = "options", .help = "all options that --config and --set take, as Markdown"},
    {0},
};

static const struct cli_option create_options[] = {
    {.letter = 'p', .name = "partitions", .kind = CLI_NUMBER, .value = "N", .help = "partitions of each (default: the broker's)", .min = 1, .max = 1000000},
    {.letter = 'r', .name = "replicas", .kind = CLI_NUMBER, .value = "N", .help = "copies of each partition (default: the broker's)", .min = 1, .max = INT16_MAX},
    {.letter = 'c', .name = "config", .kind = CLI_TEXT, .value = "NAME=VALUE", .help = "an option of the topic: retention.ms=60000", .is_repeatable = true},
    {0},
};

static const struct cli_option trim_options[] = {
    {.letter = 'o', .name = "offset", .kind = CLI_TEXT, .value = "WHERE", .help = "what stays begins here: end, N, -N (the last N), @TIME"},
    {.letter = 'p', .name = "partition", .kind = CLI_TEXT, .value = "N,...", .help = "only these partitions: 0,2,4-7 (default: all)"},
    {0},
};

static const struct cli_option grow_options[] = {
    {.letter = 'p', .name = "partitions", .kind = CLI_NUMBER, .value = "N", .help = "how many there are to be", .min = 1, .max = 1000000},
    {0},
};

static const struct cli_option alter_options[] = {
    {.letter = 'c', .name = "config", .kind = CLI_TEXT, .value = "NAME=VALUE", .help = "an option to set: retention.ms=60000", .is_repeatable = true},
    {.name = "reset", .kind = CLI_TEXT, .value = "NAME", .help = "an option that is to have its default again", .is_repeatable = true},
    {0},
};

static const struct cli_option produce_options[] = {
    {.letter = 'k', .name = "key", .kind = CLI_TEXT, .value = "KEY", .help = "key of every record"},
    {.letter = 'K', .name = "key-separator", .kind = CLI_TEXT, .value = "TEXT", .help = "lines are KEY TEXT VALUE: what stands between ('\\t')"},
    {.letter = 'f', .name = "format", .kind = CLI_TEXT, .value = "FORMAT", .help = "how records stand in the input (default '%v\\n')"},
    {.letter = 'i', .name = "input", .kind = CLI_TEXT, .value = "FILE", .help = "where they stand (default: standard input)"},
    {.letter = 'H', .name = "header", .kind = CLI_TEXT, .value = "NAME=VALUE", .help = "a header of every record; NAME alone: a null one", .is_repeatable = true},
    {.letter = 'Z', .name = "null", .kind = CLI_TEXT, .value = "TEXT", .help = "keys and values that are TEXT are null: tombstones"},
    {.name = "timestamp", .kind = CLI_TEXT, .value = "TIME", .help = "of records that say none (default: now)"},
    {.letter = 'p', .name = "partition", .kind = CLI_NUMBER, .value = "N", .help = "the partition (default: by key, else in turn)", .min = 0, .max = INT32_MAX},
    {.name = "keep-partitions", .help = "each record says its partition (--json, or %p in -f)"},
    {.letter = 'z', .name = "codec", .kind = CLI_CHOICE, .value = "CODEC", .help = "compression: none (default), gzip, snappy, lz4, zstd", .words = "none|gzip|snappy|lz4|zstd"},
    {.name = "acks", .kind = CLI_CHOICE, .value = "WHO", .help = "who has to have it: all (default), 1 (the leader), 0 (nobody)", .words = "all|-1|1|0"},
    {.name = "idempotent", .help = "no record twice, whatever is retried"},
    {.name = "timeout", .kind = CLI_NUMBER, .value = "SECONDS", .help = "how long to retry (default 30)", .min = 1, .max = 86400},
    {0},
};

static const struct cli_option consume_options[] = {
    {.letter = 'o', .name = "offset", .kind = CLI_TEXT, .value = "WHERE", .help = "start (default), end, N, -N (the last N), @TIME"},
    {.letter = 'p', .name = "partition", .kind = CLI_TEXT, .value = "N,...", .help = "only these partitions: 0,2,4-7 (default: all)"},
    {.letter = 'n', .name = "count", .kind = CLI_NUMBER, .value = "N", .help = "end after so many records", .min = 1, .max = INT64_MAX},
    {.letter = 'e', .name = "exit", .help = "end at the end that the partitions have now"},
    {.name = "until", .kind = CLI_TEXT, .value = "WHERE", .help = "end before this: end, N, -N, @TIME (default: wait for more)"},
    {.letter = 'f', .name = "format", .kind = CLI_TEXT, .value = "FORMAT", .help = "how a record is printed (default '%v\\n')"},
    {.letter = 'Z', .name = "null", .kind = CLI_TEXT, .value = "TEXT", .help = "what is printed for null (default: nothing)"},
    {.letter = 'g', .name = "group", .kind = CLI_TEXT, .value = "GROUP", .help = "as a member of this group, from where it is"},
    {.name = "instance", .kind = CLI_TEXT, .value = "ID", .help = "with -g: a static member, which a restart does not move"},
    {0},
};

static const struct cli_option seek_options[] = {
    {.letter = 'o', .name = "offset", .kind = CLI_TEXT, .value = "WHERE", .help = "start, end, N, -N (before the last N), @TIME"},
    {.name = "by", .kind = CLI_TEXT, .value = "STEP", .help = "from where the group is: -100 or 100 records, -90m or 2h"},
    {.letter = 't', .name = "topic", .kind = CLI_TEXT, .value = "TOPIC", .help = "only this topic (default: all that it has offsets in)", .is_repeatable = true},
    {.letter = 'p', .name = "partition", .kind = CLI_TEXT, .value = "N,...", .help = "only these partitions of it: 0,2,4-7 (default: all)"},
    {.name = "execute", .help = "do it; without it only show what would be done"},
    {0},
};

static const struct cli_option bench_options[] = {
    {.name = "rate", .kind = CLI_NUMBER, .value = "N", .help = "records per second (default 10000; of --search where it begins, 1000)", .min = 1, .max = 1000000000},
    {.name = "ramp", .kind = CLI_TEXT, .value = "FROM-TO", .help = "a rate that goes evenly from one to the other"},
    {.name = "search", .help = "the highest rate that is sustained, in steps"},
    {.name = "p99-max", .kind = CLI_NUMBER, .value = "MS", .help = "with --search: a step with a higher p99 does not hold", .min = 1, .max = 3600000},
    {.name = "duration", .kind = CLI_NUMBER, .value = "SECONDS", .help = "what is measured (default 10; of each step 5)", .min = 1, .max = 864000},
    {.name = "warmup", .kind = CLI_NUMBER, .value = "SECONDS", .help = "what is not, before it (default 2; of each step 1)", .min = 0, .max = 86400},
    {.name = "timeout", .kind = CLI_NUMBER, .value = "SECONDS", .help = "how long a record may take, all attempts together (default 30)", .min = 1, .max = 86400},
    {.name = "producers", .kind = CLI_NUMBER, .value = "N", .help = "each with its own connections (default 4); 0: only read TOPIC", .min = 0, .max = 1000},
    {.name = "consumers", .kind = CLI_NUMBER, .value = "N", .help = "they share the partitions (default 1); 0: only produce", .min = 0, .max = 1000},
    {.letter = 'g', .name = "group", .kind = CLI_TEXT, .value = "GROUP", .help = "the consumers as members of it, so many in each; none that others use: its offsets move", .is_repeatable = true},
    {.name = "idle-connections", .kind = CLI_NUMBER, .value = "N", .help = "so many more, each asks something once a minute (default 0)", .min = 0, .max = 1000000},
    {.name = "from", .kind = CLI_CHOICE, .value = "WHERE", .help = "with --producers 0: from the start, until all was read (default), or from the end", .words = "start|end"},
    {.name = "again", .help = "with --producers 0: at the end from the start again, for the whole duration"},
    {.name = "size", .kind = CLI_TEXT, .value = "SIZE", .help = "of values: 1024 (default), 4KiB, or 100-2000"},
    {.name = "keys", .kind = CLI_TEXT, .value = "KIND", .help = "none (default), uniform:N, round:N, zipf:N[:EXPONENT]"},
    {.name = "compressible", .kind = CLI_NUMBER, .value = "PERCENT", .help = "how much of a value is always the same byte (default 50)", .min = 0, .max = 100},
    {.letter = 'z', .name = "codec", .kind = CLI_CHOICE, .value = "CODEC", .help = "compression: none (default), gzip, snappy, lz4, zstd", .words = "none|gzip|snappy|lz4|zstd"},
    {.name = "acks", .kind = CLI_CHOICE, .value = "WHO", .help = "who has to have it: all (default), 1 (the leader), 0 (nobody)", .words = "all|-1|1|0"},
    {.name = "idempotent", .help = "no record twice, whatever is retried"},
    {.name = "batch", .kind = CLI_TEXT, .value = "SIZE", .help = "a batch this large is sent (default 256KiB; with --replay 64KiB)"},
    {.name = "linger", .kind = CLI_NUMBER, .value = "MS", .help = "a batch this old is sent (default 0: as answers come)", .min = 0, .max = 60000},
    {.name = "in-flight", .kind = CLI_NUMBER, .value = "N", .help = "batches of a partition without an answer (default 1; idempotent or replayed 5)", .min = 1, .max = 1000},
    {.name = "replay", .help = "batches encoded before the run: less work for the generator; they go round the partitions, whatever the keys"},
    {.letter = 'p', .name = "partitions", .kind = CLI_NUMBER, .value = "N", .help = "of the topic that is made (default 4)", .min = 1, .max = 1000000},
    {.letter = 'r', .name = "replicas", .kind = CLI_NUMBER, .value = "N", .help = "copies of each (default: the broker's)", .min = 1, .max = INT16_MAX},
    {.letter = 'c', .name = "config", .kind = CLI_TEXT, .value = "NAME=VALUE", .help = "an option of it: retention.ms=60000", .is_repeatable = true},
    {.name = "hlog", .kind = CLI_TEXT, .value = "FILE", .help = "histograms of every second, for readers of HdrHistogram"},
    {0},
};

static const struct cli_option check_options[] = {
    {.name = "data-dir", .kind = CLI_TEXT, .value = "DIR", .help = "where the data are to lie (default ./data)", .is_repeatable = true},
    {0},
};

static const struct cli_option repair_options[] = {
    {.name = "data-dir", .kind = CLI_TEXT, .value = "DIR", .help = "of the node, with the partition (default ./data)"},
    {.name = "accept-loss", .help = "give up what is damaged, for good"},
    {0},
};

static const struct cli_option dump_options[] = {
    {.name = "records", .help = "the records of each batch too"},
    {0},
};

/* clang-format on */
static const char dump_details[] =
    "FILE, by its name: a segment (<data>/logs/<topic-id>-<partition>/*.log), entry by entry; a\n"
    "checkpoint (*.checkpoint, beside them); a store (<data>/shard-N.store): what is durably known "
    "of\n"
    "each log. The broker may run meanwhile.\n"
    "Bytes of a segment that are not the next entry are shown as BAD: behind the last write of a "
    "crash\n"
    "that is normal, and recovery cuts them. D is the index known to be durable when the entry "
    "was\n"
    "written. With --json each item is a line: {\"file\",\"kind\",...}, of segments with "
    "\"pos\" and kinds\n"
    "segment, entry, bad, cut, end.\n";

static const char repair_details[] =
    "For a partition whose damaged records cannot be put back from a copy. The node must be "
    "stopped. Reads\n"
    "all of TOPIC-PARTITION (hurt-0, __consumer_offsets-12) and says what is damaged; changes "
    "nothing but\n"
    "what any start would.\n"
    "\n"
    "With --accept-loss the damaged offsets are given up: consumers go on behind them, as where "
    "compaction\n"
    "removed something, groups are loaded from what is left, and where nothing can be read behind "
    "the\n"
    "damage the partition ends there. What rots later is refused again. A copy of the directory "
    "first is\n"
    "the only way back.\n"
    "\n"
    "A range is told with the file and the positions in it, the last one excluded: what is bad is "
    "saved with\n"
    "dd if=FILE of=COPY iflag=skip_bytes,count_bytes skip=POSITION count=SIZE.\n"
    "With --json: {\"partition\", \"accepted\", \"damaged\": [{\"first_offset\", \"next_offset\", "
    "\"entries\",\n"
    "\"file\", \"pos\", \"end_pos\"}],\n"
    "\"accepted_before\":[...]}; null: to an end that nobody knows.\n"
    "\n"
    "The exit code is 0 where there is no damage, or none any more: given up now, or before. It is "
    "3 where\n"
    "damage was found and not given up, and 1 where something failed.\n";

static const char trim_details[] =
    "The records below WHERE are deleted for good; offsets stay as they are. WHERE: end (all "
    "records "
    "go),\n"
    "an offset, -N to keep the last N of each partition, or @TIME to keep what is younger (see "
    "'coreflume\n"
    "help consume' for times). Topics whose cleanup.policy is compact alone are refused.\n";

static const char grow_details[] =
    "Records stay where they are; from then on a key may go to another partition than before. "
    "Partitions\n"
    "cannot be taken away again.\n";

static const char produce_details[] =
    "Without -K, -f or --json a line is a value. With -K it is KEY TEXT VALUE, or a value alone.\n"
    "\n"
    "FORMAT is as 'coreflume help consume' has it: what consume prints, produce reads. A part ends "
    "where the text behind it stands:\n"
    "\n"
    "    %k\\t%v\\n      a key, a tab, a value up to the end of the line\n"
    "    %T %k=%v\\n    a timestamp too; %d takes dates, %h headers\n"
    "    %K %S %k%v\\n  sizes first: keys and values of any bytes, null if -1\n"
    "    %R%v          the size in four bytes, as kcat writes it\n"
    "\n"
    "%p is the partition if --keep-partitions says so; %t and %o are skipped.\n"
    "\n"
    "With --json a line is a record as consume prints it, of which only value is required:\n"
    "\n"
    "    "
    "{\"key\":\"k\",\"value\":null,\"timestamp\":0,\"headers\":[{\"key\":\"h\",\"value\":\"\"}]}\n"
    "\n"
    "null is null; key_base64 and value_base64 are for bytes that are no text; topic and offset "
    "are "
    "skipped. What became of the records is told in JSON too.\n"
    "\n"
    "TIME: milliseconds since 1970, 2026-11-29T19:00:00Z, or -90m (ago). Records older than the "
    "topic keeps them (retention.ms) are deleted soon.\n"
    "\n"
    "At the end it says how many were acknowledged. Ctrl-C ends the input, and what was read is "
    "sent; a second one ends the waiting.\n"
    "\n"
    "To copy a topic's records, headers and times included:\n"
    "\n"
    "    coreflume consume FROM --json -e | coreflume produce TO --json\n";

static const char consume_details[] =
    "WHERE, in each partition:\n"
    "\n"
    "    start, end\n"
    "    N                 an offset\n"
    "    -N                the last N records\n"
    "    @2026-11-29T19:00 the first record as young as that: a date, with or without\n"
    "                      a time, Z or +HH:MM behind it (UTC if not)\n"
    "    @-90m             so long ago: s, m, h, d\n"
    "    @1795978800000    milliseconds since 1970\n"
    "\n"
    "--until stops before it; -e is --until end.\n"
    "\n"
    "FORMAT:\n"
    "\n"
    "    %v, %s  value                  %S  its size, -1: null\n"
    "    %k      key                    %K  its size, -1: null\n"
    "    %h      headers: NAME=VALUE,...\n"
    "    %T      timestamp in ms        %d  as a date\n"
    "    %t      topic                  %p  partition     %o  offset\n"
    "    %R      size of the value in four bytes, big endian\n"
    "    %%      a percent sign         \\n \\t \\r \\0 \\\\ \\xHH\n"
    "\n"
    "With --json each record is a line, which produce --json reads:\n"
    "\n"
    "    {\"topic\":\"t\",\"partition\":0,\"offset\":7,\"timestamp\":1795978800000,\n"
    "     \"key\":null,\"value\":\"v\",\"headers\":[{\"key\":\"h\",\"value\":\"1\"}]}\n"
    "\n"
    "What is not UTF-8 stands in key_base64 and value_base64 instead.\n"
    "\n"
    "With -g the partitions of the TOPICs are shared with the other members of GROUP. It goes on "
    "where "
    "the group is; -o says where to begin without a committed offset: start, end, @TIME. What was "
    "printed is committed, and at the end the group is left. -p and --until are not for members.\n";

static const char describe_details[] =
    "For each partition: what is committed, the end, and how far the group is behind: LAG in "
    "records, with those that the log has no more, BEHIND in time, from when the next record to "
    "read was written until now. A dash stands for what is not known, or not there.\n";

static const char seek_details[] =
    "Shows where the group is and where it would go on; --execute does it. Members go on from "
    "their "
    "own positions, so --execute is refused while there are some.\n"
    "\n"
    "WHERE is as 'coreflume help consume' has it. STEP starts from the committed offset: a number "
    "of "
    "records, or a time (s, m, h, d) counted from when the next record to read was written (where "
    "that is not known nothing is changed), from now at the end. It stops at the first and the "
    "last record.\n"
    "\n"
    "With -t all partitions of the topic are meant, also those without an offset, and the group "
    "need "
    "not exist.\n"
    "\n"
    "    coreflume group seek billing -o @-1h              what the last hour brought, again\n"
    "    coreflume group seek billing -t orders -o start --execute\n"
    "    coreflume group seek billing --by 1 -t orders -p 3 --execute   skip one record\n";

static const char bench_details[] =
    "Without TOPIC one is made, and deleted at the end. Against any broker that speaks Kafka's "
    "protocol.\n"
    "\n"
    "It is an open loop: when a record is due follows from the rate alone, and its latency begins "
    "there, however late it could be sent. So a broker that stands still for a second shows as a "
    "second, in all records that were due meanwhile.\n"
    "\n"
    "    publish      from due until acknowledged\n"
    "    end to end   from due until a consumer has it\n"
    "    send slip    from due until handed to a client that had room: the generator's own "
    "lateness\n"
    "    backlog      records that are due and neither acknowledged nor failed\n"
    "    CPUs         processors that bench itself takes\n"
    "\n"
    "A WARNING says when it may not be the broker that was measured: a thread of bench above 90 % "
    "of "
    "a processor, no processor time left on the machine, or late sends. --replay and more "
    "--producers help.\n"
    "\n"
    "Records that fail, or that nobody answers, count in the percentiles of publish with --timeout "
    "at least: left out they would flatter.\n"
    "\n"
    "--search doubles the rate while a step holds, then halves the distance, down to 5 %. A step "
    "holds if nothing fails or is missing, everything is answered within 0.2 s of its end (or 2 % "
    "of the step, if that is more), and p99 is not above --p99-max. A step takes 4 s or more, and "
    "one that fails is tried once more.\n"
    "\n"
    "With --producers 0 the consumers read what TOPIC has, or with --from end what others write to "
    "it, and records per second are told. Without -g each consumer reads its share of the "
    "partitions from the first moment on; the time of a group counts from when its members have "
    "partitions. lag is what lies between the readers and the end.\n"
    "\n"
    "Keys: uniform draws each of N alike, zipf the K-th in proportion to 1/K^EXPONENT, round takes "
    "one "
    "after the other.\n"
    "\n"
    "The exit code is 0 if no record failed, was left without an answer, or was not read; after "
    "--search, if a rate held; after --ramp whatever became of them. Ctrl-C ends early, and tells "
    "what there is. Values in --hlog are microseconds.\n"
    "\n"
    "    coreflume bench                                    a first look\n"
    "    coreflume bench --rate 100000 --size 100 --consumers 0 --replay\n"
    "    coreflume bench --search --p99-max 10\n"
    "    coreflume bench orders --producers 0               how fast all of it can be read\n"
    "    coreflume bench -g bench-1 -g bench-2 --consumers 3 --keys zipf:100000\n";

static const char group_delete_details[] =
    "With their offsets, for good. Groups that have members are refused.\n";

static const char broker_config_details[] =
    "NODE is the number of the broker that is asked; without it: what is set for all brokers.\n";

static const char broker_alter_details[] = "NODE is the number of a broker; without it all brokers "
                                           "are meant. What is altered is in force at "
                                           "once,\n"
                                           "on topics without a value of their own, too, and goes "
                                           "before the broker's file and command line, "
                                           "also\n"
                                           "after a restart, until --reset. Which options can be "
                                           "altered: 'coreflume start --options', \"at "
                                           "once\".\n";

static const char completion_details[] =
    "    bash: source <(coreflume completion bash), in ~/.bashrc\n"
    "    zsh:  coreflume completion zsh > _coreflume, in a directory of $fpath\n"
    "    fish: coreflume completion fish > ~/.config/fish/completions/coreflume.fish\n"
    "\n"
    "Names of topics and groups are asked of the broker of -b or COREFLUME_BROKERS, for a second "
    "at most.\n";

static const char manual_details[] = "    coreflume manual > coreflume.1; man ./coreflume.1\n"
                                     "\n"
                                     "An installation has it where man finds it.\n";

/* clang-format off */
const struct cli_command CLI_COMMANDS[] = {
    {.name = "start", .operands = "", .summary = "run a broker", .options = start_options},
    {.name = "topic create", .operands = "NAME...", .summary = "create topics; returns when they can be used", .options = create_options, .operands_min = 1, .operands_max = -1, .has_brokers = true, .has_json = true, .run = cli_topic_create},
    {.name = "topic list", .operands = "", .summary = "list topics", .has_brokers = true, .has_json = true, .run = cli_topic_list},
    {.name = "topic describe", .operands = "TOPIC", .summary = "partitions, leaders and offsets of a topic", .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_topic_describe},
    {.name = "topic delete", .operands = "TOPIC...", .summary = "delete topics and their records", .operands_min = 1, .operands_max = -1, .has_brokers = true, .has_json = true, .run = cli_topic_delete},
    {.name = "topic grow", .operands = "TOPIC", .summary = "give a topic more partitions", .details = grow_details, .options = grow_options, .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_topic_grow},
    {.name = "topic config", .operands = "TOPIC", .summary = "the options of a topic that are in force, and where they come from", .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_topic_config},
    {.name = "topic alter", .operands = "TOPIC", .summary = "change options of a topic, at once and for good", .options = alter_options, .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_topic_alter},
    {.name = "topic trim", .operands = "TOPIC", .summary = "delete the oldest records of a topic", .details = trim_details, .options = trim_options, .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_topic_trim},
    {.name = "broker config", .operands = "[NODE]", .summary = "the options of a broker that are in force, and where they come from", .details = broker_config_details, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_broker_config},
    {.name = "broker alter", .operands = "[NODE]", .summary = "change options of a broker, or of all brokers, while they run", .details = broker_alter_details, .options = alter_options, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_broker_alter},
    {.name = "group list", .operands = "", .summary = "list consumer groups", .has_brokers = true, .has_json = true, .run = cli_group_list},
    {.name = "group describe", .operands = "GROUP", .summary = "state, members and lag of a group", .details = describe_details, .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_group_describe},
    {.name = "group seek", .operands = "GROUP", .summary = "move a group to other offsets; shows what it would do first", .details = seek_details, .options = seek_options, .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_group_seek},
    {.name = "group delete", .operands = "GROUP...", .summary = "delete groups and their offsets", .details = group_delete_details, .operands_min = 1, .operands_max = -1, .has_brokers = true, .has_json = true, .run = cli_group_delete},
    {.name = "produce", .operands = "TOPIC", .summary = "write records to a topic: lines, JSON, or a format of yours", .details = produce_details, .options = produce_options, .operands_min = 1, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_produce},
    {.name = "consume", .operands = "TOPIC...", .summary = "print the records of a topic, or of what a group reads", .details = consume_details, .options = consume_options, .operands_min = 1, .operands_max = -1, .has_brokers = true, .has_json = true, .run = cli_consume},
    {.name = "log dump", .operands = "FILE...", .summary = "what is in the files of logs: segments, checkpoints, stores", .details = dump_details, .options = dump_options, .operands_min = 1, .operands_max = -1, .has_json = true, .run = cli_log_dump},
    {.name = "log repair", .operands = "TOPIC-PARTITION", .summary = "give up damaged records of a stopped node; shows them first", .details = repair_details, .options = repair_options, .operands_min = 1, .operands_max = 1, .has_json = true, .run = cli_log_repair},
    {.name = "bench", .operands = "[TOPIC]", .summary = "load a broker at a rate, and see what it does to latencies", .details = bench_details, .options = bench_options, .operands_max = 1, .has_brokers = true, .has_json = true, .run = cli_bench},
    {.name = "check", .operands = "", .summary = "what of this machine helps or hurts a broker, and what to do", .options = check_options, .has_json = true, .run = cli_check},
    {.name = "version", .operands = "", .summary = "what this binary is", .has_json = true, .run = cli_version},
    {.name = "completion", .operands = "SHELL", .summary = "a script for bash, zsh or fish that completes command lines", .details = completion_details, .operands_min = 1, .operands_max = 1, .run = cli_completion},
    {.name = "manual", .operands = "", .summary = "the manual page, for man", .details = manual_details, .run = cli_manual},
    {.name = "help", .operands = "[COMMAND]", .summary = "help on a command", .operands_max = 2, .run = cli_help},
};
/* clang-format on */
const size_t CLI_COMMANDS_COUNT = sizeof(CLI_COMMANDS) / sizeof(CLI_COMMANDS[0]);

enum {
    COMMON_COUNT = 3,
};

const struct cli_option *cli_option_at(const struct cli_command *command, size_t index)
{
    const struct cli_option *o = command->options;
    for (; o != NULL && o->name != NULL; o++) {
        if (index-- == 0) {
            return o;
        }
    }
    const struct cli_option *common[COMMON_COUNT];
    size_t common_count = 0;
    if (command->has_brokers) {
        common[common_count++] = &CLI_OPTION_BROKERS;
    }
    if (command->has_json) {
        common[common_count++] = &CLI_OPTION_JSON;
    }
    common[common_count++] = &CLI_OPTION_HELP;
    return index < common_count ? common[index] : NULL;
}

void cli_each_option(FILE *out, const struct cli_command *command, cli_option_printer print)
{
    for (size_t i = 0;; i++) {
        const struct cli_option *o = cli_option_at(command, i);
        if (o == NULL) {
            return;
        }
        print(out, command, o);
    }
}
