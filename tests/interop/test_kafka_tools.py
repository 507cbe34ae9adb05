#!/usr/bin/env python3
"""Kafka's own command line tools against a node. ORACLE=1: the same expectations against Apache Kafka."""
import json
import os
import re
import subprocess
import time

from support.check import equal, expect
from support.kafka_tools import JAVA, Tools, run_or_skip, server
from support.node import fresh_dir

TOPICS, CONFIGS, OFFSETS = "TopicCommand", "kafka.admin.ConfigCommand", "GetOffsetShell"
RECORDS = [f"k{i}:value {i}" for i in range(200)]


def passes(answer, *texts):
    expect(answer.exit == 0, f"exit {answer.exit}: {answer.out[-400:]} {answer.err[-400:]}")
    for text in texts:
        expect(text in answer.out, f"no {text!r} in {answer.out[:600]!r}")


def refused(answer, *texts):
    expect(answer.exit != 0, f"exit 0: {answer.out[:600]}")
    for text in texts:
        expect(text in answer.out + answer.err, f"no {text!r} in {answer.out[:600]!r} {answer.err[:600]!r}")


def test_topics():
    with server("kafka_topics") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "t", "--partitions", 3, "--config", "retention.ms=86400000"),
               "Created topic t.")
        refused(tool(TOPICS, "--create", "--topic", "t"), "Topic 't' already exists.")
        passes(tool(TOPICS, "--create", "--topic", "t", "--if-not-exists"))
        equal(tool(TOPICS, "--list").out.split(), ["t"], "--list")
        described = tool(TOPICS, "--describe", "--topic", "t")
        passes(described, "PartitionCount: 3\tReplicationFactor: 1", "retention.ms=86400000",
               "Topic: t\tPartition: 2\tLeader: 1\tReplicas: 1\tIsr: 1")
        expect(re.search(r"TopicId: [\w-]{22}", described.out), f"a topic id: {described.out}")
        passes(tool(TOPICS, "--describe", "--topics-with-overrides"), "Topic: t\t")
        equal(tool(TOPICS, "--describe", "--under-replicated-partitions").out.strip(), "", "under-replicated")
        refused(tool(TOPICS, "--create", "--topic", "bad name"), "Topic name is invalid")
        refused(tool(TOPICS, "--create", "--topic", "n", "--config", "nonsense=1"), "Unknown topic config name: nonsense")
        refused(tool(TOPICS, "--create", "--topic", "r", "--replication-factor", 3),
                "Unable to replicate the partition 3 time(s)")
        passes(tool(TOPICS, "--alter", "--topic", "t", "--partitions", 5))
        passes(tool(TOPICS, "--describe", "--topic", "t"), "PartitionCount: 5")
        refused(tool(TOPICS, "--alter", "--topic", "t", "--partitions", 2),
                "currently has 5 partition(s); 2 would not be an increase.")
        passes(tool(TOPICS, "--delete", "--topic", "t"))
        refused(tool(TOPICS, "--delete", "--topic", "t"), "Topic 't' does not exist as expected")
        passes(tool(TOPICS, "--delete", "--topic", "t", "--if-exists"))


def test_describe_configs():
    with server("kafka_describe_configs") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "c", "--config", "cleanup.policy=compact,delete"))
        equal(tool(CONFIGS, "--describe", "--topic", "c").out.splitlines(),
              ["Dynamic configs for topic c are:",
               "  cleanup.policy=compact,delete sensitive=false synonyms="
               "{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}"],
              "topic's own")
        passes(tool(CONFIGS, "--describe", "--topic", "c", "--all"),
               "segment.bytes=1073741824 sensitive=false synonyms={DEFAULT_CONFIG:log.segment.bytes=1073741824}",
               "retention.bytes=-1 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.bytes=-1}")
        passes(tool(CONFIGS, "--describe", "--broker", 1, "--all"), "All configs for broker 1 are:",
               "num.partitions=1 sensitive=false")
        passes(tool(CONFIGS, "--describe", "--topic", "nope"),
               "The topic 'nope' doesn't exist and doesn't have dynamic config.")


def test_alter_broker_configs():
    with server("kafka_alter_configs") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "c"))

        def described(*which):
            """Once Kafka, which tells its parts one after the other, is done."""
            time.sleep(1 if os.environ.get("ORACLE") else 0)
            lines = tool(CONFIGS, "--describe", *which).out.splitlines()
            # Kafka sets this one by itself, for eligible leader replicas.
            return [line for line in lines if not line.startswith("  min.insync.replicas=")]

        one, all_brokers = ("--entity-type", "brokers", "--entity-name", 1), ("--entity-type", "brokers", "--entity-default")
        passes(tool(CONFIGS, "--alter", *all_brokers, "--add-config", "log.retention.ms=70000000,message.max.bytes=5000"),
               "Completed updating default config for brokers in the cluster.")
        passes(tool(CONFIGS, "--alter", *one, "--add-config", "log.retention.ms=80000000,log.cleanup.policy=[compact,delete]"),
               "Completed updating config for broker 1.")
        equal(sorted(described(*all_brokers)), [
            "  log.retention.ms=70000000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=70000000}",
            "  message.max.bytes=5000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=5000}",
            "Default configs for brokers in the cluster are:"], "of all brokers")
        chain = ("{DYNAMIC_BROKER_CONFIG:log.retention.ms=80000000, DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=70000000, "
                 "DEFAULT_CONFIG:log.retention.hours=168}")
        equal(sorted(described(*one)), [
            "  log.cleanup.policy=compact,delete sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.cleanup.policy="
            "compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
            f"  log.retention.ms=80000000 sensitive=false synonyms={chain}",
            "Dynamic configs for broker 1 are:"], "of one")
        expect(f"  retention.ms=80000000 sensitive=false synonyms={chain}" in described("--topic", "c", "--all"),
               "a topic without a value of its own")
        equal(described("--topic", "c"), ["Dynamic configs for topic c are:"], "and so it is not its own")
        refused(tool(CONFIGS, "--alter", *one, "--add-config", "log.segment.bytes=1"),
                "Invalid value 1 for configuration log.segment.bytes: Value must be at least 1048576")
        refused(tool(CONFIGS, "--alter", *one, "--add-config", "num.partitions=2"),
                "Cannot update these configs dynamically: [num.partitions]")
        passes(tool(CONFIGS, "--alter", *one, "--delete-config", "log.roll.ms"))
        passes(tool(CONFIGS, "--alter", *one, "--delete-config", "log.retention.ms,log.cleanup.policy"))
        passes(tool(CONFIGS, "--alter", *all_brokers, "--delete-config", "log.retention.ms,message.max.bytes"))
        equal(described(*one), ["Dynamic configs for broker 1 are:"], "all is as before")

        group = ("--entity-type", "groups", "--entity-name", "g")
        passes(tool(CONFIGS, "--alter", *group, "--add-config", "consumer.session.timeout.ms=50000"),
               "Completed updating config for group g.")
        if os.environ.get("ORACLE"):  # The tool asks for the list of groups first, which are not there yet.
            equal(described(*group), ["Dynamic configs for group g are:", "  consumer.session.timeout.ms=50000 sensitive=false "
                                      "synonyms={DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000, "
                                      "DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}"], "of a group")
        refused(tool(CONFIGS, "--alter", *group, "--add-config", "consumer.session.timeout.ms=1"),
                "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms")
        metrics = ("--entity-type", "client-metrics", "--entity-name", "m")
        passes(tool(CONFIGS, "--alter", *metrics, "--add-config", "interval.ms=5000,metrics=*"))
        equal(sorted(described(*metrics)), [
            "  interval.ms=5000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=5000}",
            "  metrics=* sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:metrics=*}",
            "Dynamic configs for client-metric m are:"], "of client metrics")
        loggers = ("--entity-type", "broker-loggers", "--entity-name", 1)
        passes(tool(CONFIGS, "--alter", *loggers, "--add-config", "root=WARN"),
               "Completed updating config for broker-logger 1.")
        expect(any(line.startswith("  root=WARN sensitive=false") for line in described(*loggers)), described(*loggers))


def offsets(tool, topic, *options):
    answer = tool(OFFSETS, "--topic", topic, *options)
    passes(answer)
    return sum(int(line.rsplit(":", 1)[1]) for line in answer.out.splitlines())


def test_console_there_and_back():
    with server("kafka_console") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "t", "--partitions", 1))
        for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
            passes(tool("ConsoleProducer", "--topic", "t", "--compression-codec", codec,
                        "--reader-property", "parse.key=true", "--reader-property", "key.separator=:",
                        stdin="\n".join(RECORDS) + "\n"))
        equal(offsets(tool, "t"), 5 * len(RECORDS), "latest")
        equal(offsets(tool, "t", "--time", "-2"), 0, "earliest")
        equal(offsets(tool, "t", "--time", "max-timestamp") >= 0, True, "max timestamp")
        read = tool("consumer.ConsoleConsumer", "--topic", "t", "--partition", 0, "--offset", "earliest",
                    "--max-messages", 5 * len(RECORDS), "--timeout-ms", 20000,
                    "--formatter-property", "print.key=true", "--formatter-property", "key.separator=:")
        passes(read)
        equal(read.out.splitlines(), RECORDS * 5, "records")


def test_alter_topic_configs():
    with server("kafka_alter_topic") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "c"))
        passes(tool(CONFIGS, "--alter", "--topic", "c", "--add-config", "retention.ms=5000,cleanup.policy=[compact,delete]"),
               "Completed updating config for topic c.")
        passes(tool(CONFIGS, "--describe", "--topic", "c"), "  retention.ms=5000 sensitive=false",
               "  cleanup.policy=compact,delete sensitive=false")
        passes(tool(CONFIGS, "--alter", "--topic", "c", "--delete-config", "retention.ms"))
        described = tool(CONFIGS, "--describe", "--topic", "c")
        passes(described, "cleanup.policy=compact,delete")
        expect("retention.ms" not in described.out, described.out)
        refused(tool(CONFIGS, "--alter", "--topic", "c", "--add-config", "retention.ms=soon"),
                "Invalid value soon for configuration retention.ms: Not a number of type LONG")
        refused(tool(CONFIGS, "--alter", "--topic", "c", "--add-config", "nonsense=1"),
                "Unknown topic config name: nonsense")
        refused(tool(CONFIGS, "--alter", "--topic", "absent", "--add-config", "retention.ms=1"),
                "The topic 'absent' does not exist.")


def test_records_at_offsets_and_times():
    with server("kafka_records") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "t", "--config", "retention.ms=-1"))
        passes(tool("ConsoleProducer", "--topic", "t", "--reader-property", "parse.key=true", "--reader-property",
                    "key.separator=:", "--reader-property", "parse.headers=true", "--reader-property",
                    "headers.delimiter=|", stdin="h1:a,h2:b|k:v\nh1:c|k2:v2\n"))
        read = tool("consumer.ConsoleConsumer", "--topic", "t", "--partition", 0, "--offset", 0, "--max-messages", 2,
                    "--timeout-ms", 20000, "--formatter-property", "print.key=true", "--formatter-property",
                    "print.headers=true", "--formatter-property", "print.offset=true", "--formatter-property",
                    "print.partition=true")
        equal(read.out.splitlines(), ["Partition:0\tOffset:0\th1:a,h2:b\tk\tv", "Partition:0\tOffset:1\th1:c\tk2\tv2"],
              "read")
        for time_asked, offset in (("latest", "2"), ("-1", "2"), ("earliest", "0"), ("-2", "0"), ("0", "0"),
                                   ("earliest-local", "0"), ("-4", "0"), (4102444800000, None)):
            found = tool(OFFSETS, "--topic", "t", "--time", time_asked)
            passes(found)
            equal(found.out.strip(), f"t:0:{offset}" if offset else "", f"--time {time_asked}")
        expect(re.fullmatch("t:0:[01]", tool(OFFSETS, "--topic", "t", "--time", "max-timestamp").out.strip()), "-3")
        plan = fresh_dir("kafka_records_plan") / "offsets.json"
        plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "offset": 1}]}))
        passes(tool("DeleteRecordsCommand", "--offset-json-file", plan), "partition: t-0\tlow_watermark: 1")
        equal(tool(OFFSETS, "--topic", "t", "--time", "earliest").out.strip(), "t:0:1", "after deletion")


def test_load_tools():
    with server("kafka_load") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "perf", "--partitions", 3))
        passes(tool("ProducerPerformance", "--topic", "perf", "--num-records", 50000, "--record-size", 200,
                    "--throughput", -1, "--command-property", f"bootstrap.servers={node.kafka}", server=None),
               "50000 records sent")
        equal(offsets(tool, "perf"), 50000, "perf")
        # It goes on after its main() has returned: a JVM of its own.
        done = subprocess.run([*JAVA, "org.apache.kafka.tools.VerifiableProducer", "--bootstrap-server", node.kafka,
                               "--topic", "perf", "--max-messages", "500"], capture_output=True, text=True, timeout=60)
        expect('"acked":500' in done.stdout, f"verifiable: {done.stdout[-300:]} {done.stderr[-300:]}")
        equal(offsets(tool, "perf"), 50500, "verifiable")


def test_cluster_tools():
    with server("kafka_cluster") as node, Tools(node.kafka) as tool:
        passes(tool(TOPICS, "--create", "--topic", "t"))
        answer = tool("ClusterTool", "cluster-id", "--bootstrap-server", node.kafka, server=None)
        expect(re.match(r"Cluster ID: [\w-]{22}$", answer.out.strip()), f"cluster id: {answer}")
        passes(tool("BrokerApiVersionsCommand"), "Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13")
        passes(tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", "t", "--partition", 0),
               "Valid replica already elected for partitions t-0")
        passes(tool("reassign.ReassignPartitionsCommand", "--list"), "No partition reassignments found.")
        passes(tool("TransactionsCommand", "list"), "TransactionalId")
        dirs = tool("LogDirsCommand", "--describe", "--topic-list", "t")
        passes(dirs, "Received log directory information from brokers 1", '"partition":"t-0"')
        quorum = tool("MetadataQuorumCommand", "describe", "--status")
        passes(quorum, "LeaderId:", "HighWatermark:", "CurrentVoters:")
        expect(re.search(r"LeaderId: +1\n", quorum.out), quorum.out)
        passes(tool("MetadataQuorumCommand", "describe", "--replication"), "Leader")
        passes(tool("FeatureCommand", "describe"))
        passes(tool(CONFIGS, "--describe", "--entity-type", "clients"))
        refused(tool("AclCommand", "--list"), "SecurityDisabledException")


if __name__ == "__main__":
    run_or_skip("Kafka's tools", globals())
