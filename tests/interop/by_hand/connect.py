#!/usr/bin/env python3
"""Kafka Connect: file source and sink, standalone with offsets in a file, and distributed on two workers. ORACLE=1: the same against Apache Kafka."""
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from support.check import equal, expect, run_all
from support.kafka_tools import JAVA, install, server
from support.node import fresh_dir
from support.wire import Connection, batches

LINES = [f"line {i} {'x' * (i % 97)}" for i in range(6000)]
SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, seconds=SECONDS):
    """The first true answer of `what`; a refused connection is a no."""
    ends, answer = time.monotonic() + seconds, None
    while time.monotonic() < ends:
        try:
            answer = what()
        except (urllib.error.URLError, ConnectionError):
            answer = None
        if answer:
            return answer
        time.sleep(0.1)
    raise AssertionError(f"not within {seconds} s; last {answer!r}")


class Connect:
    """One standalone worker; its folder (with the offsets) outlives it."""

    def __init__(self, folder, brokers, *connectors):
        self.rest = f"http://127.0.0.1:{free_port()}"
        worker = folder / "worker.properties"
        worker.write_text(f"""bootstrap.servers={brokers}
listeners={self.rest}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={folder}/offsets
offset.flush.interval.ms=500
plugin.discovery=service_load
topic.creation.enable=true
""")
        files = []
        for settings in connectors:
            path = folder / f"{settings['name']}.properties"
            path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
            files.append(path)
        self.log = open(folder / "connect.log", "a")
        self.process = subprocess.Popen([*JAVA, "org.apache.kafka.connect.cli.ConnectStandalone", worker, *files],
                                        cwd=folder, stdout=self.log, stderr=self.log)

    def status(self, name):
        with urllib.request.urlopen(f"{self.rest}/connectors/{name}/status", timeout=5) as answer:
            return json.load(answer)

    def running(self, name):
        status = self.status(name)
        return status if [task["state"] for task in status["tasks"]] == ["RUNNING"] else None

    def task_error(self, name):
        return next((task["trace"] for task in self.status(name)["tasks"] if task["state"] == "FAILED"), None)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


def source(path, topic):
    return {"name": "source", "connector.class": "FileStreamSource", "tasks.max": 1, "file": path, "topic": topic,
            "topic.creation.default.replication.factor": 1, "topic.creation.default.partitions": 1,
            "topic.creation.default.retention.ms": 86400000}


def sink(path, topic):
    return {"name": "sink", "connector.class": "FileStreamSink", "tasks.max": 1, "file": path, "topics": topic}


def values(brokers, topic):
    """Every value of partition 0, read back by kcat."""
    done = subprocess.run(["kcat", "-b", brokers, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q"],
                          capture_output=True, text=True, timeout=SECONDS)
    return done.stdout.splitlines()


def produce(brokers, topic, lines):
    subprocess.run(["kcat", "-b", brokers, "-P", "-t", topic], input="".join(f"{line}\n" for line in lines), text=True,
                   check=True, timeout=SECONDS)


def end_offset(brokers, topic):
    with Connection(brokers) as c:
        error, _, offset, _ = c.list_offsets(topic, 0, -1)
    return offset if error == 0 else -1


def append(path, lines):
    with open(path, "a") as file:
        file.write("".join(line + "\n" for line in lines))


def test_source_goes_on_at_its_offset():
    """Worker and node are both restarted in between: every line once, in order."""
    folder = fresh_dir("connect_source")
    path = folder / "input.txt"
    append(path, LINES[:2000])
    with server("connect_source_node") as node:
        with Connect(folder, node.kafka, source(path, "lines")) as connect:
            until(lambda: end_offset(node.kafka, "lines") == 2000)
            append(path, LINES[2000:3000])
            until(lambda: end_offset(node.kafka, "lines") == 3000)
            connect.stop()
        append(path, LINES[3000:4000])
        node.restart()
        equal(end_offset(node.kafka, "lines"), 3000, "after the node's restart")
        with Connect(folder, node.kafka, source(path, "lines")):
            until(lambda: end_offset(node.kafka, "lines") == 4000)
        equal(values(node.kafka, "lines"), LINES[:4000], "lines")


def test_source_through_kills():
    """The node killed under a working worker, then the worker killed: nothing lost. The worker's producer
    retries without idempotence and its offsets are flushed twice a second, so that lines may come twice."""
    folder = fresh_dir("connect_kills")
    path = folder / "input.txt"
    append(path, LINES[:3000])
    with server("connect_kills_node") as node:
        with Connect(folder, node.kafka, source(path, "lines")) as connect:
            until(lambda: end_offset(node.kafka, "lines") >= 1000)
            node.restart(kill=True)
            append(path, LINES[3000:4500])
            until(lambda: LINES[4499] in values(node.kafka, "lines"))
            expect(connect.running("source"), "the source's task is alive")
            connect.process.kill()
        append(path, LINES[4500:])
        with Connect(folder, node.kafka, source(path, "lines")):
            until(lambda: LINES[-1] in values(node.kafka, "lines"))
        got = values(node.kafka, "lines")
        firsts = list(dict.fromkeys(got))
        equal(firsts, LINES, f"first of each of {len(got)}")


def test_sink():
    """A sink's task reads in a consumer group: every line, and after a restart only those that came since."""
    folder = fresh_dir("connect_sink")
    output = folder / "output.txt"

    def written():
        return output.read_text().splitlines() if output.exists() else []
    with server("connect_sink_node") as node:
        produce(node.kafka, "lines", LINES)
        with Connect(folder, node.kafka, sink(output, "lines")) as connect:
            until(lambda: len(written()) >= len(LINES))
            equal(written(), LINES, "lines")
            connect.stop()
        produce(node.kafka, "lines", LINES[:100])
        with Connect(folder, node.kafka, sink(output, "lines")):
            until(lambda: len(written()) >= len(LINES) + 100)
            equal(written()[len(LINES):], LINES[:100], "what came since")


class Worker(Connect):
    """One of a cluster of workers, which keep what they know in topics and share the connectors in a group."""

    def __init__(self, folder, brokers):
        self.rest = f"http://127.0.0.1:{free_port()}"
        folder.mkdir(exist_ok=True)
        worker = folder / "worker.properties"
        worker.write_text(f"""bootstrap.servers={brokers}
listeners={self.rest}
group.id=connect-cluster
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.topic=connect-offsets
offset.storage.replication.factor=-1
offset.storage.partitions=5
config.storage.topic=connect-configs
config.storage.replication.factor=1
status.storage.topic=connect-status
status.storage.replication.factor=-1
offset.flush.interval.ms=500
session.timeout.ms=6000
heartbeat.interval.ms=1000
scheduled.rebalance.max.delay.ms=1000
plugin.discovery=service_load
""")
        self.log = open(folder / "connect.log", "a")
        self.process = subprocess.Popen([*JAVA, "org.apache.kafka.connect.cli.ConnectDistributed", worker], cwd=folder,
                                        stdout=self.log, stderr=self.log)

    def put(self, settings):
        body = json.dumps({key: str(value) for key, value in settings.items() if key != "name"}).encode()
        request = urllib.request.Request(f"{self.rest}/connectors/{settings['name']}/config", body,
                                         {"Content-Type": "application/json"}, method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status in (200, 201)


def test_distributed_with_a_worker_killed():
    """Source and sink on two workers; one is killed -9: the other has both, and every line comes out at least once."""
    folder = fresh_dir("connect_distributed")
    path, output = folder / "input.txt", folder / "output.txt"
    append(path, LINES[:2000])
    with server("connect_distributed_node") as node, Worker(folder / "a", node.kafka) as a:
        until(lambda: a.put(source(path, "lines")))
        until(lambda: a.put(sink(output, "lines")))
        until(lambda: output.exists() and len(output.read_text().splitlines()) >= 2000)
        equal(output.read_text().splitlines(), LINES[:2000], "by one worker")
        with Worker(folder / "b", node.kafka) as b:
            until(lambda: b.running("source") and b.running("sink"))
            until(lambda: len({b.status(name)["tasks"][0]["worker_id"] for name in ("source", "sink")}) == 2)
            append(path, LINES[2000:4000])
            until(lambda: set(LINES[:4000]) <= set(output.read_text().splitlines()))
            a.process.kill()
            append(path, LINES[4000:])
            until(lambda: set(LINES) <= set(output.read_text().splitlines()))
            equal({b.status(name)["tasks"][0]["worker_id"] for name in ("source", "sink")}, {b.rest.removeprefix("http://")}, "the one left has both")
            b.stop()


if __name__ == "__main__":
    install()
    run_all(globals())
