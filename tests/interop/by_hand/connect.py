#!/usr/bin/env python3
"""Kafka Connect standalone: file source and sink, with its offsets in a file. ORACLE=1: the same against Apache Kafka."""
import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

from support.check import equal, expect, run_all
from support.kafka_tools import JAVA, ORACLE, install, server
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
    """A sink task reads in a consumer group and in no other way: refused until there are groups."""
    folder = fresh_dir("connect_sink")
    output = folder / "output.txt"
    with server("connect_sink_node") as node:
        subprocess.run(["kcat", "-b", node.kafka, "-P", "-t", "lines"], input="".join(f"{line}\n" for line in LINES),
                       text=True, check=True, timeout=SECONDS)
        with Connect(folder, node.kafka, sink(output, "lines")) as connect:
            if ORACLE:
                until(lambda: output.exists() and len(output.read_text().splitlines()) == len(LINES))
                equal(sorted(output.read_text().splitlines()), sorted(LINES), "lines")
                return
            error = until(lambda: connect.task_error("sink"))
            expect("InvalidRequestException" in error, error)
            equal(connect.status("sink")["connector"]["state"], "RUNNING", "the worker lives")


if __name__ == "__main__":
    install()
    run_all(globals())
