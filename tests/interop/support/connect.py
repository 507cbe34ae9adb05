"""Workers of Kafka Connect with its file connectors."""
import json
import signal
import socket
import subprocess
import time
import urllib.request

from support.kafka_tools import JAVA

LINES = [f"line {i} {'x' * (i % 97)}" for i in range(6000)]
SECONDS = 60


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, seconds=SECONDS):
    """The first true answer of `what`; a refusal by a worker or its connection is a no."""
    ends, answer = time.monotonic() + seconds, None
    while time.monotonic() < ends:
        try:
            answer = what()
        except OSError: # Among them urllib's and timeouts.
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

    @property
    def address(self):
        return self.rest.removeprefix("http://")

    def put(self, settings):
        body = json.dumps({key: str(value) for key, value in settings.items() if key != "name"}).encode()
        request = urllib.request.Request(f"{self.rest}/connectors/{settings['name']}/config", body,
                                         {"Content-Type": "application/json"}, method="PUT")
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status in (200, 201)


def source(path, topic):
    return {"name": "source", "connector.class": "FileStreamSource", "tasks.max": 1, "file": path, "topic": topic,
            "topic.creation.default.replication.factor": 1, "topic.creation.default.partitions": 1,
            "topic.creation.default.retention.ms": 86400000}


def sink(path, topic):
    return {"name": "sink", "connector.class": "FileStreamSink", "tasks.max": 1, "file": path, "topics": topic}


def append(path, lines):
    with open(path, "a") as file:
        file.write("".join(line + "\n" for line in lines))
