"""Kafka's own command line tools, many in one JVM, and Apache Kafka's server itself to compare with."""
import collections
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

from support.check import run_all
from support.install import alone
from support.node import ROOT, Node, fresh_dir

ORACLE = bool(os.environ.get("ORACLE"))

SOURCE = ROOT / "tests" / "interop" / "kafka_tools"
INSTALLED = ROOT / "build" / "interop" / "kafka_tools"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{INSTALLED}/classes:{INSTALLED}/dependency/*"]

Answer = collections.namedtuple("Answer", "exit out err")


def missing():
    return [tool for tool in ("java", "mvn") if not shutil.which(tool)]


def maven(source, installed):
    """Compiles a folder's program and fetches what its pom.xml pins; nothing to do when all is there and current."""
    with alone(installed):
        _maven(source, installed)


def _maven(source, installed):
    stamp = installed / "stamp"
    content = "".join(path.read_text() for path in sorted(source.rglob("*")) if path.is_file())
    if stamp.exists() and stamp.read_text() == content:
        return
    shutil.rmtree(installed, ignore_errors=True)
    installed.mkdir(parents=True)
    subprocess.run(["mvn", "-q", "-B", "compile", "dependency:copy-dependencies", f"-Dout={installed}"],
                   cwd=source, check=True)
    stamp.write_text(content)


def install():
    maven(SOURCE, INSTALLED)


def run_or_skip(what, module_globals, prepare=install):
    """The end of a script that needs a JVM: its tests, or a skip, which in CI is a failure."""
    lacking = missing()
    if not lacking:
        prepare()
        run_all(module_globals)
    print(f"SKIPPED {what}: {', '.join(lacking)} not installed", flush=True)
    print("0 passed, 1 failed" if os.environ.get("CI") else "1 passed, 0 failed", flush=True)
    sys.exit(1 if os.environ.get("CI") else 0)


class Tools:
    """One JVM for one server; call it with a tool's class and arguments."""

    def __init__(self, brokers):
        self.brokers = brokers
        self.process = subprocess.Popen([*JAVA, "Tools"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True)

    def __call__(self, main, *args, stdin="", server="--bootstrap-server"):
        name = main if main.startswith("kafka.") else f"org.apache.kafka.tools.{main}"
        words = [*([server, self.brokers] if server else []), *map(str, args)]
        self.process.stdin.write(json.dumps({"main": name, "args": words, "stdin": stdin}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return Answer(answer["exit"], answer["out"], answer["err"])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


class ApacheKafka:
    """Apache Kafka's server, one node, with the attributes of support.node.Node that tests use. java: the command
    that comes before the name of a class, of another version or with other options."""

    def __init__(self, name, *lines, java=(*JAVA, "-Xmx512m")):
        self.java = list(java)
        folder = fresh_dir(f"{name}_apache")
        ports = []
        for _ in range(2):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                ports.append(probe.getsockname()[1])
        self.kafka = f"127.0.0.1:{ports[0]}"
        self.settings = folder / "server.properties"
        self.settings.write_text("\n".join(["""process.roles=broker,controller
node.id=1
controller.listener.names=CONTROLLER
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0""",
            f"controller.quorum.voters=1@127.0.0.1:{ports[1]}",
            f"listeners=PLAINTEXT://{self.kafka},CONTROLLER://127.0.0.1:{ports[1]}",
            f"log.dirs={folder}/data", *lines, ""]))
        subprocess.run([*self.java, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", self.settings],
                       check=True, capture_output=True)
        self.start()

    def start(self):
        self.began = time.monotonic()
        self.process = subprocess.Popen([*self.java, "kafka.Kafka", self.settings], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        try:
            self._await_port(int(self.kafka.rsplit(":", 1)[1]))
        except BaseException:  # Whoever ends the program while it waits must not leave a JVM behind.
            self.process.kill()
            raise

    @staticmethod
    def _await_port(port):
        for _ in range(6000):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.01)
        raise AssertionError("Apache Kafka did not start in 60 s")

    def restart(self, kill=False):
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGTERM)
        self.process.wait()
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()


def server(name, *settings):
    """What a test runs against: one node of Coreflume, or with ORACLE=1 one of Apache Kafka. settings: name=value."""
    if ORACLE:
        return ApacheKafka(name, *settings)
    options = [word for setting in settings for word in ("--set", setting)]
    return Node(fresh_dir(name) / "data", "--node-id", "1", *options)
