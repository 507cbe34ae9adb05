"""The clients of tests/interop/clients: installing them, and asking their programs. What they must do: README.md there."""
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time

from support.node import ROOT

CLIENTS = ROOT / "tests" / "interop" / "clients"
INSTALLED = ROOT / "build" / "interop" / "clients"
SECONDS = 90


class Failed(Exception):
    pass


class TimedOut(Exception):
    """No answer at all: never taken for a refusal."""


class Lacks(Exception):
    """The client cannot do this, and says why."""


@contextlib.contextmanager
def alone(name):
    """One process at a time installs a client."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    with open(INSTALLED / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Client:
    def __init__(self, folder, brokers):
        self.name, self.source, self.installed = folder.name, folder, INSTALLED / folder.name
        self.about = json.loads((folder / "client.json").read_text())
        self.title = self.about["title"]
        self.brokers = brokers

    def fill(self, words):
        return [word.format(src=self.source, dest=self.installed) for word in words]

    def missing_tools(self):
        return [tool for tool in self.about["needs"] if not shutil.which(tool)]

    def install(self):
        """Once per content of its folder and those it shares; a stamp says what is installed."""
        with alone(self.name):
            self._install()

    def _install(self):
        digest = hashlib.sha256()
        for folder in (self.source, *(CLIENTS / name for name in self.about.get("shares", ()))):
            for path in sorted(folder.rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
        stamp = self.installed / "stamp"
        if stamp.exists() and stamp.read_text() == digest.hexdigest():
            return
        if self.about["setup"]:
            shutil.rmtree(self.installed, ignore_errors=True)
        self.installed.mkdir(parents=True, exist_ok=True)
        for command in self.about["setup"]:
            done = subprocess.run(self.fill(command), cwd=self.source, capture_output=True, text=True)
            if done.returncode:
                raise Failed(f"{' '.join(command)}: {(done.stderr or done.stdout)[-1500:]}")
        stamp.write_text(digest.hexdigest())

    def member(self):
        """The program of the verb `member`, with the words before its own."""
        return [*self.fill(self.about.get("member", self.about["program"])), self.brokers, "member"]

    def call(self, verb, *args, lines=()):
        """The lines of the answer. Raises Failed with the program's error, Lacks with its reason."""
        command = [*self.fill(self.about["program"]), self.brokers, verb, *map(str, args)]
        try:
            done = subprocess.run(command, cwd=self.installed, capture_output=True, text=True, timeout=SECONDS,
                                  input="".join(json.dumps(line) + "\n" for line in lines))
        except subprocess.TimeoutExpired:
            raise TimedOut(f"{verb}: no end after {SECONDS} s") from None
        if done.returncode:
            error = (done.stderr.strip() or "no error text").splitlines()[-1]
            raise Failed(f"{verb}: {error[:300]}")
        answers = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if answers and "unsupported" in answers[0]:
            raise Lacks(answers[0]["unsupported"])
        return answers


def prepared(clients, tally):
    """Those that are installed; others fail or are skipped loudly. Installs one at a time."""
    ready, in_ci = [], bool(os.environ.get("CI"))
    for client in clients:
        rule = client.about["ci"]
        missing = client.missing_tools()
        if in_ci and rule == "never":
            print(f"SKIPPED {client.name}: too slow to build in CI; ./dev interop {client.name} runs it")
            tally["skipped"] += 1
            continue
        if missing:
            must = in_ci and rule == "required"
            print(f"{'not ok' if must else 'SKIPPED'} {client.name}: needs {', '.join(missing)}, not installed")
            tally["failed" if must else "skipped"] += 1
            continue
        began = time.monotonic()
        try:
            client.install()
            ready.append(client)
        except Failed as error:
            print(f"not ok {client.name}: install: {error}")
            tally["failed"] += 1
        if time.monotonic() - began > 1:
            print(f"installed {client.name} ({time.monotonic() - began:.0f} s)", flush=True)
    return ready
