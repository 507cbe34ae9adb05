"""A real node as a child process: data under build/, ports 0, the ready line awaited."""
import os
import pathlib
import queue
import re
import shutil
import signal
import subprocess
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
READY = re.compile(r"^ready kafka=(\S+) admin=(\S+)$")


def binary():
    return os.environ.get("COREFLUME", str(ROOT / "build" / "release" / "coreflume"))


def fresh_dir(name):
    """An empty directory for one test, on the file system of the build tree."""
    path = ROOT / "build" / "interop" / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    return path


class StartFailed(Exception):
    pass


class Node:
    """Started by the constructor. Use as a context manager: the process never outlives it."""

    def __init__(self, data_dir, *options, kafka="127.0.0.1:0", admin="127.0.0.1:0", ready_seconds=30,
                 **popen):
        self.options, self.popen = options, popen
        self.data_dir = pathlib.Path(data_dir)
        self.log_path = self.data_dir.with_name(self.data_dir.name + ".log")
        self.log = open(self.log_path, "a")
        self.process = subprocess.Popen(
            [binary(), "start", "--data-dir", str(data_dir), "--kafka", kafka, "--admin", admin, *options],
            stdout=subprocess.PIPE, stderr=self.log, text=True, **popen)
        self.stdout = queue.Queue()
        threading.Thread(target=self._pump, args=(self.process.stdout, self.stdout), daemon=True).start()
        try:
            line = self.stdout.get(timeout=ready_seconds)
        except queue.Empty:
            line = None
        match = READY.match(line or "")
        if not match:
            code = self._end()
            raise StartFailed(f"no ready line but {line!r}, exit {code}; stderr ends: {self.log_tail()}")
        self.kafka, self.admin = match.groups()

    @staticmethod
    def _pump(source, lines):
        """Knows its own process and queue only: after a restart, the last one's end must not be taken for the new one's."""
        for line in source:
            lines.put(line.rstrip("\n"))
        lines.put(None)

    def log_tail(self):
        return self.log_path.read_text()[-2000:]

    def rss_kib(self):
        """Memory of the process that is in the machine's."""
        return self.memory_kib("VmRSS:")

    def peak_kib(self):
        """The most it ever was."""
        return self.memory_kib("VmHWM:")

    def memory_kib(self, kind):
        for line in open(f"/proc/{self.process.pid}/status", encoding="ascii"):
            if line.startswith(kind):
                return int(line.split()[1])
        raise ValueError(f"no {kind}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM; returns (exit code, seconds)."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=30), time.monotonic() - began

    def _end(self):
        """Waits for a process that seems to end by itself; its exit code."""
        try:
            return self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.kill()
            return "none: killed"

    def restart(self, kill=False):
        """The same node at the same addresses. What is killed holds its ports until the kernel has taken its rings
        apart, a little after the process is gone."""
        self.kill() if kill else self.stop()
        self.log.close()
        for attempt in range(50):
            try:
                self.__init__(self.data_dir, *self.options, kafka=self.kafka, admin=self.admin, **self.popen)
                return
            except StartFailed as failure:
                if "is taken" not in str(failure) or attempt == 49:
                    raise
                time.sleep(0.1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.log.close()


def refused_start(data_dir, *options, kafka="127.0.0.1:0", admin="127.0.0.1:0", **popen):
    """Starts what must not start. Returns (exit code, stdout, lines of stderr)."""
    command = [binary(), "start"]
    if data_dir is not None:
        command += ["--data-dir", str(data_dir)]
    if kafka is not None:
        command += ["--kafka", kafka]
    done = subprocess.run([*command, "--admin", admin, *options],
                          capture_output=True, text=True, timeout=30, **popen)
    return done.returncode, done.stdout, done.stderr.splitlines()
