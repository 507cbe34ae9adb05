"""The clients of tests/interop/clients: installing them, and asking their programs. What they must do: README.md there."""
import concurrent.futures
import hashlib
import json
import os
import shutil
import subprocess
import time

from support.install import alone
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
        with alone(self.installed):
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
            try:
                done = subprocess.run(self.fill(command), cwd=self.source, capture_output=True, text=True)
            except OSError as error:
                raise Failed(f"{' '.join(command)}: {error}") from error
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


def may_run(client, tally, required):
    """Or says what it lacks."""
    in_ci, rule, missing = bool(os.environ.get("CI")), client.about["ci"], client.missing_tools()
    if in_ci and rule not in (*required, "optional"):
        why = client.about.get("why_not", "CI has no time for it here")
        print(f"SKIPPED {client.name}: {why}; ./dev interop {client.name} runs it")
        tally["skipped"] += 1
        return False
    if missing:
        must = in_ci and rule in required
        print(f"{'not ok' if must else 'SKIPPED'} {client.name}: needs {', '.join(missing)}, not installed")
        tally["failed" if must else "skipped"] += 1
    return not missing


def installed(client):
    """(why not, or None; seconds)"""
    began, error = time.monotonic(), None
    try:
        client.install()
    except Failed as failure:
        error = failure
    return error, time.monotonic() - began


def prepared(clients, tally, required=("required",)):
    """Those that are installed; others fail or are skipped loudly. required: the rules of client.json whose clients may not be
    skipped in CI; of the others it runs only the optional ones."""
    wanted = [client for client in clients if may_run(client, tally, required)]
    ready = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for client, (error, seconds) in zip(wanted, pool.map(installed, wanted)):
            if error:
                print(f"not ok {client.name}: install: {error}")
                tally["failed"] += 1
                continue
            ready.append(client)
            if seconds > 1:
                print(f"installed {client.name} ({seconds:.0f} s)", flush=True)
    return ready
