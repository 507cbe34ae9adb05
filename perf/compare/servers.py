"""The servers of a run: started, told to stand still, and what their processes took.

A server that is not being measured is stopped (SIGSTOP), so that its timers and its garbage collector are in nobody's
latencies. Kafka would fence a broker that was silent for that long: its session is as long as a run may be.
"""
import dataclasses
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import time

from compare import ROOT
from support.kafka_tools import ApacheKafka, maven
from support.node import Node, binary, fresh_dir
from support.wire import Connection, batch

KAFKA_INSTALLED = ROOT / "build" / "compare" / "kafka"
# What Kafka's own start script gives its JVM.
JVM = ["-Xms1g", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
       "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
# Both: batches of 1 MiB, and old records go as soon as they may.
SHARED_SETTINGS = ["message.max.bytes=2097152", "log.retention.check.interval.ms=500"]
KAFKA_SETTINGS = [*SHARED_SETTINGS, "log.segment.delete.delay.ms=1000"]
# Not where it is killed: until the session of the one before is over, its controller refuses a broker that comes back.
WHILE_STOPPED = ["broker.session.timeout.ms=7200000"]
REQUEST_TIMED_OUT, REPLICATION_FACTOR = 7, 38


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process has taken so far."""
    cpu_s: float    # All threads, those that have ended too.
    written: int    # Bytes to the disk; of buffered writes what was made dirty.

    @staticmethod
    def of(pid):
        io = pathlib.Path(f"/proc/{pid}/io").read_text()
        written = int(re.search(r"^write_bytes: (\d+)", io, re.M).group(1))
        # The kernel's clock of a process: the sum in /proc/PID/stat, in nanoseconds instead of ticks.
        return Usage(time.clock_gettime((~pid << 3) | 2), written)

    def since(self, before):
        return Usage(self.cpu_s - before.cpu_s, self.written - before.written)


class Server:
    """node: what has .kafka (its address) and .process."""

    def __init__(self, node, settings):
        self.node, self.settings = node, settings

    @property
    def address(self):
        return self.node.kafka

    @property
    def pid(self):
        return self.node.process.pid

    def usage(self):
        return Usage.of(self.pid)

    def memory_kib(self):
        status = pathlib.Path(f"/proc/{self.pid}/status").read_text()
        return sum(int(kib) for kib in re.findall(r"^(?:VmRSS|HugetlbPages):\s+(\d+)", status, re.M))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def pause(self):
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.pid, signal.SIGCONT)

    def create(self, topic, partitions=1, configs=None, seconds=120):
        """A new broker may know no broker yet, itself: asked again."""
        end = time.monotonic() + seconds
        while True:
            with Connection(self.address, seconds=seconds) as connection:
                error = connection.create_topic(topic, partitions, configs)
            if error == 0:
                return
            if error not in (REQUEST_TIMED_OUT, REPLICATION_FACTOR) or time.monotonic() > end:
                raise SystemExit(f"compare: {topic} was not created: error {error}")
            time.sleep(0.01)

    def delete(self, topic):
        with Connection(self.address, seconds=60) as connection:
            connection.delete_topic(topic)

    def await_ack(self, topic, partition=0, seconds=120):
        """Until a record is acknowledged."""
        end, record = time.monotonic() + seconds, batch([b"x"])
        while time.monotonic() < end:
            try:
                with Connection(self.address, seconds=seconds) as connection:
                    if connection.produce(topic, partition, record)[0] == 0:
                        return
            except (OSError, AssertionError):
                pass
            time.sleep(0.005)
        raise SystemExit(f"compare: {topic}-{partition} took no record within {seconds} s")

    def restart(self):
        """kill -9, and a start that is waited for until it listens."""
        self.node.restart(kill=True)

    def close(self):
        self.resume()
        self.node.process.kill()
        self.node.process.wait()


def coreflume(name):
    words = [word for setting in SHARED_SETTINGS for word in ("--set", setting)]
    return Server(Node(fresh_dir(name) / "data", *words, ready_seconds=120), {"options": SHARED_SETTINGS})


def kafka(name, *more):
    classes = ["-cp", f"{KAFKA_INSTALLED}/dependency/*"]
    node = ApacheKafka(name, *KAFKA_SETTINGS, *more, java=["java", *JVM, *classes])
    return Server(node, {"jvm": JVM, "properties": node.settings.read_text().splitlines()})


def empty_start(kind, name, starters):
    """A server on an empty directory, and when its start began: without what was there, and without the JVM of its own
    that formats Kafka's directory."""
    fresh_dir(name)
    began = time.monotonic()
    server = starters[kind](name)
    return server, server.node.began if isinstance(server.node, ApacheKafka) else began


class Redis:
    """Redis with every write of its log flushed. Debian's redis-tools holds the server, under the name of a checker:
    the package of the server proper would start one."""
    PROGRAM = "/usr/bin/redis-check-rdb"

    def __init__(self, name):
        self.directory = fresh_dir(name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.settings = {"options": ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", str(self.directory), "--save", "",
                                     "--appendonly", "yes", "--appendfsync", "always"]}
        self.process = subprocess.Popen(["redis-server", *self.settings["options"]], executable=self.PROGRAM,
                                        stdout=subprocess.DEVNULL)
        for _ in range(500):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)
        raise SystemExit("compare: redis does not listen")

    pid = property(lambda self: self.process.pid)
    usage, pause, resume = Server.usage, Server.pause, Server.resume

    def create(self, *_):
        """Its streams are there with their first record."""

    def delete(self, topic):
        subprocess.run(["redis-cli", "-p", str(self.port), "del", topic], check=True, stdout=subprocess.DEVNULL)

    def close(self):
        self.process.kill()
        self.process.wait()


STARTERS = {"coreflume": coreflume, "kafka": kafka, "redis": Redis}


def install(kinds):
    """What has to be there for these."""
    if "kafka" in kinds:
        if not shutil.which("mvn"):
            raise SystemExit("compare: Apache Kafka needs java and mvn (./dev compare installs them)")
        maven(ROOT / "perf" / "compare" / "kafka", KAFKA_INSTALLED)
    if "redis" in kinds and not pathlib.Path(Redis.PROGRAM).exists():
        raise SystemExit("compare: redis-tools is missing (./dev compare installs it)")


class Servers:
    """Started when they are first asked for, each once in a run; all stand still but the one that works."""

    def __init__(self, starters=None):
        self.starters, self.running = starters or STARTERS, {}

    def get(self, kind):
        if kind not in self.running:
            more = WHILE_STOPPED if kind == "kafka" and self.starters is STARTERS else []
            self.running[kind] = self.starters[kind](f"compare_{kind}", *more)
            self.running[kind].pause()
        return self.running[kind]

    def close_all(self):
        while self.running:
            self.running.popitem()[1].close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close_all()


def versions():
    """Of all that is compared."""
    def first(*command):
        try:
            done = subprocess.run(command, capture_output=True, text=True)
        except FileNotFoundError:
            return None
        return (done.stdout + done.stderr).splitlines()
    jars = sorted(path.name for path in KAFKA_INSTALLED.glob("dependency/kafka_*.jar"))
    return {"coreflume": first(binary(), "--version"), "java": first("java", "-version"), "kafka": jars,
            "redis": first("redis-cli", "--version")}
