"""The command line as tests call it, and kcat."""
import json
import os
import subprocess

from support.check import equal, expect
from support.node import binary


class Done:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def ok(self):
        expect(self.code == 0 and self.err == "", f"exit {self.code}: {self.err}")
        return self

    def lines(self):
        return self.ok().out.splitlines()

    def json(self):
        return json.loads(self.ok().out)

    def json_lines(self):
        return [json.loads(line) for line in self.lines()]

    def fails(self, code, text):
        """One line on stderr that says it."""
        equal(self.code, code, f"exit code ({self.err})")
        equal(self.err.count("\n"), 1, f"lines on stderr ({self.err})")
        expect(self.err.startswith("coreflume: ") and text in self.err, f"{text!r} is not in {self.err!r}")
        return self


def run(*arguments, text_in="", brokers=None, seconds=60, **popen):
    environment = {k: v for k, v in os.environ.items() if k != "COREFLUME_BROKERS"}
    if brokers:
        environment["COREFLUME_BROKERS"] = brokers
    return Done(subprocess.run([binary(), *map(str, arguments)], input=text_in, capture_output=True, text=True,
                               timeout=seconds, env=environment, **popen))


def cli(node, *arguments, **options):
    return run(*arguments, brokers=node.kafka, **options)


def kcat(node, *options, lines=None):
    done = subprocess.run(["kcat", "-b", node.kafka, *options], capture_output=True, text=True, timeout=60,
                          input=None if lines is None else "\n".join(lines) + "\n")
    expect(done.returncode == 0, f"kcat {options}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout.splitlines()
