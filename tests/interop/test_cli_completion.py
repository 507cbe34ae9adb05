#!/usr/bin/env python3
"""The completion scripts in their shells, and the manual page in groff: accepted, and they complete.

bash and groff are everywhere; zsh and fish are asked where they are installed.
"""
import os
import pathlib
import re
import shutil
import subprocess

from support.check import equal, expect, run_all
from support.node import Node, binary, fresh_dir

# What is typed, and what is offered for its last word.
OFFERS = [
    ("to", ["topic"]),
    ("topic cre", ["create"]),
    ("topic create x --part", ["--partitions"]),
    ("--json topic de", ["delete", "describe"]),
    ("produce x -z zs", ["zstd"]),
    ("produce x --codec gz", ["gzip"]),
    ("produce -p 1 x --ack", ["--acks"]),
    ("completion z", ["zsh"]),
    ("help vers", ["version"]),
    ("check --data-dir /et", ["/etc"]),
]


def shell(name, script, *arguments, text_in="", brokers=""):
    environment = dict(os.environ, PATH=f"{pathlib.Path(binary()).resolve().parent}:{os.environ['PATH']}",
                       COREFLUME_BROKERS=brokers, TERM="dumb")
    done = subprocess.run([name, *arguments, "-c", script] if script else [name, *arguments], input=text_in,
                          capture_output=True, text=True, timeout=60, env=environment)
    expect(done.returncode == 0 and done.stderr == "", f"{name}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def script_of(name):
    path = fresh_dir(f"cli_completion_{name}") / "script"
    path.write_text(subprocess.run([binary(), "completion", name], check=True, capture_output=True, text=True).stdout)
    return path


def is_there(name):
    if shutil.which(name) is None:
        print(f"SKIPPED: {name} is not installed; its completion script was not tried", flush=True)
        return False
    return True


def bash_offers(script, typed, brokers=""):
    """COMP_WORDS as bash makes them: = and : are words of their own."""
    words = typed.replace("=", " = ").replace(":", " : ").split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    return shell("bash", f"""set -u; source {script}; COMP_WORDS=(coreflume {quoted}); COMP_CWORD={len(words)}
        _coreflume; printf '%s\\n' "${{COMPREPLY[@]}}" """, brokers=brokers).split()


def fish_offers(script, typed, brokers=""):
    out = shell("fish", f"source {script}; complete -C 'coreflume {typed}'", brokers=brokers)
    return [line.split("\t")[0].rstrip("/") for line in out.splitlines()]


def test_bash():
    script = script_of("bash")
    shell("bash", None, "-n", str(script))
    for typed, wanted in OFFERS:
        equal(sorted(bash_offers(script, typed)), wanted, typed)
    equal(bash_offers(script, "produce x --codec=sn"), ["snappy"], "behind =")
    equal(bash_offers(script, "-b 127.0.0.1:1 vers"), ["version"], "behind an address")
    expect({"start", "topic", "log", "help"} <= set(bash_offers(script, "")), "first words")
    equal(bash_offers(script, "produce x -k "), [], "a key is the user's")


def test_fish():
    if is_there("fish"):
        script = script_of("fish")
        shell("fish", None, "-n", str(script))
        for typed, wanted in OFFERS:
            equal(sorted(fish_offers(script, typed)), wanted, typed)


def test_zsh():
    """zsh completes in its editor only: here it takes the script, and its functions are there."""
    if is_there("zsh"):
        script = script_of("zsh")
        shell("zsh", None, "-n", str(script))
        out = shell("zsh", f"autoload -U compinit && compinit -u -D && source {script} && print $_comps[coreflume]", "-f")
        equal(out, "_coreflume\n", "the completion of coreflume")


def test_names_are_asked_of_the_broker():
    with Node(fresh_dir("cli_completion_topics") / "data") as node:
        subprocess.run([binary(), "topic", "create", "orders", "payments", "-b", node.kafka], check=True,
                       capture_output=True)
        script = script_of("bash")
        equal(bash_offers(script, "consume ord", brokers=node.kafka), ["orders"], "bash")
        equal(bash_offers(script, f"-b {node.kafka} topic describe "), ["orders", "payments"], "bash, -b")
        for group in ("billing", "books"):
            subprocess.run([binary(), "group", "seek", group, "-t", "orders", "-o", "start", "--execute", "-b", node.kafka],
                           check=True, capture_output=True)
        equal(bash_offers(script, "group describe b", brokers=node.kafka), ["billing", "books"], "groups")
        equal(bash_offers(script, "group seek billing -t p", brokers=node.kafka), ["payments"], "topics as values")
        equal(bash_offers(script, "consume orders -g bo", brokers=node.kafka), ["books"], "groups as values")
        if is_there("fish"):
            equal(fish_offers(script_of("fish"), "produce pay", brokers=node.kafka), ["payments"], "fish")
            equal(fish_offers(script_of("fish"), "group delete bi", brokers=node.kafka), ["billing"], "fish, groups")


def test_manual():
    page = subprocess.run([binary(), "manual"], check=True, capture_output=True, text=True).stdout
    if is_there("groff"):
        text = shell("groff", None, "-man", "-Tascii", "-ww", "-P-c", text_in=page)
        expect("coreflume topic create NAME..." in re.sub(".\b", "", text), text[:2000])


run_all(globals())
