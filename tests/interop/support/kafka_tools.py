"""Kafka's own command line tools, many in one JVM, and Apache Kafka's server itself to compare with."""
import collections
import json
import shutil
import socket
import subprocess
import time

from support.node import ROOT, fresh_dir

SOURCE = ROOT / "tests" / "interop" / "kafka_tools"
INSTALLED = ROOT / "build" / "interop" / "kafka_tools"
JAVA = ["java", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        "-cp", f"{INSTALLED}/classes:{INSTALLED}/dependency/*"]

Answer = collections.namedtuple("Answer", "exit out err")


def missing():
    return [tool for tool in ("java", "mvn") if not shutil.which(tool)]


def install():
    """Compiles Tools.java and fetches the pinned tools; nothing to do when they are there and current."""
    stamp = INSTALLED / "stamp"
    content = "".join(path.read_text() for path in sorted(SOURCE.rglob("*")) if path.is_file())
    if stamp.exists() and stamp.read_text() == content:
        return
    shutil.rmtree(INSTALLED, ignore_errors=True)
    INSTALLED.mkdir(parents=True)
    subprocess.run(["mvn", "-q", "-B", "compile", "dependency:copy-dependencies", f"-Dout={INSTALLED}"],
                   cwd=SOURCE, check=True)
    stamp.write_text(content)


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
    """Apache Kafka's server, one node, with the attributes of support.node.Node that tests use."""

    def __init__(self, name):
        folder = fresh_dir(f"{name}_apache")
        ports = []
        for _ in range(2):
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                ports.append(probe.getsockname()[1])
        self.kafka = f"127.0.0.1:{ports[0]}"
        settings = folder / "server.properties"
        settings.write_text(f"""process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{ports[1]}
listeners=PLAINTEXT://{self.kafka},CONTROLLER://127.0.0.1:{ports[1]}
controller.listener.names=CONTROLLER
log.dirs={folder}/data
offsets.topic.replication.factor=1
""")
        subprocess.run([*JAVA, "kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qk", "-c", settings],
                       check=True, capture_output=True)
        self.process = subprocess.Popen([*JAVA, "kafka.Kafka", settings], stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        self._await(ports[0])

    def _await(self, port):
        for _ in range(300):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        self.process.kill()
        raise AssertionError("Apache Kafka did not start in 30 s")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
