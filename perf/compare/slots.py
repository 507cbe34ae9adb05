"""A row, measured: topics made, servers warmed, rounds of slots. One slot is one run of a generator against one side."""
import json
import os
import pathlib
import re
import resource
import subprocess
import sys

from compare import ROOT
from compare.rows import Half
from compare.verdict import is_steady, order
from support.node import binary

WARM_S = 1  # Of a slot at a rate, before what is measured.
REDIS_RATE = 30000
REDIS_KEPT = 100000  # Records in a stream: it is all in memory.
TICK = os.sysconf("SC_CLK_TCK")


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def program(name):
    return pathlib.Path(binary()).parent / "perf" / name


def words(options):
    return [word for name, value in options.items()
            for word in ([f"--{name}"] if value is True else [f"--{name}", str(value)])]


def generator(command):
    """A generator's last line but for what is no JSON, as it is; failures of records are in it, and told by the caller."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if not done.stdout.strip():
        raise SystemExit(f"compare: {' '.join(map(str, command))}: exit {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def machine_busy_s():
    """Of all processors since the boot, the kernel's own included."""
    fields = [int(field) for field in pathlib.Path("/proc/stat").read_text().split("\n")[0].split()[1:]]
    user, nice, system, _, _, irq, softirq, steal = fields[:8]
    return (user + nice + system + irq + softirq + steal) / TICK


def children_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


# ---- the generators: each returns what it did, over all of the time that the server's CPU is counted ----

def load(side, topic, address, options, timing):
    command = [program("load"), "--broker", address, "--topic", topic, "--partitions", side.partitions, *words(options),
               "--seconds", timing["seconds"], "--warmup", timing["warmup"]]
    told = json.loads(generator(command))
    return {"records": told["all_records"], "bytes": told["all_records"] * options["record"], "p50_us": told["p50_us"],
            "p99_us": told["p99_us"], "p999_us": told["p999_us"], "MB_per_s": told["bytes"] / told["seconds"] / 1e6,
            "errors": told["errors"], "command": command}


def bench(side, topic, address, options, timing):
    command = [binary(), "bench", topic, "--brokers", address, "--json", *words(options), "--duration", timing["seconds"],
               "--warmup", timing["warmup"]]
    told = json.loads(generator(command))["windows"][0]
    counts, times = told["records"], told["publish"]
    records = counts["acknowledged"] * (timing["warmup"] + timing["seconds"]) / timing["seconds"]
    return {"records": records, "bytes": records * told["record_size"], "p50_us": times["p50_us"], "p99_us": times["p99_us"],
            "p999_us": times["p99_9_us"], "MB_per_s": told["bytes_per_s"] / 1e6,
            "errors": counts["offered"] - counts["acknowledged"], "warnings": told["warnings"], "command": command}


def read(side, topic, address, options, timing):
    """From memory, over and over."""
    command = [binary(), "bench", topic, "--brokers", address, "--json", "--producers", 0, "--again", *words(options),
               "--duration", timing["seconds"], "--warmup", 0]
    told = json.loads(generator(command))["windows"][0]
    size = told["bytes"]
    return {"records": told["records"], "bytes": size, "MB_per_s": size / told["seconds"] / 1e6, "errors": 0,
            "warnings": told["warnings"], "command": command}


def redis(side, topic, server, options, timing):
    """So many records as take about as long as a slot: its own benchmark knows no time."""
    count = int(timing["seconds"] * REDIS_RATE)
    command = ["redis-benchmark", "-p", server.port, "-c", options["conns"], "-P", options["records"], "-n", count, "--csv",
               "XADD", topic, "MAXLEN", "~", REDIS_KEPT, "*", "v", "x" * options["record"]]
    line = generator(command).splitlines()[-1]
    rate = float(re.findall(r'"([0-9.]+)"', line)[0])
    return {"records": count, "bytes": count * options["record"], "MB_per_s": rate * options["record"] / 1e6, "errors": 0,
            "command": [word if len(str(word)) < 100 else f"(value of {len(word)} bytes)" for word in command]}


TOOLS = {"load": load, "bench": bench, "read": read}


class Measured:
    """One row in the making. timing: seconds of a slot, pairs, ..."""

    def __init__(self, row, servers, timing, only=None):
        self.row, self.servers, self.timing = row, servers, timing
        self.sides = {name: side for name, side in row.sides.items() if not only or side.server in only}
        self.topics = {name: f"{row.name}-{name}" for name in self.sides}
        self.rate, self.peaks, self.rounds, self.warnings = None, {}, [], []

    def run(self):
        for name, side in self.sides.items():
            self.working(name, lambda server, side=side, name=name: server.create(
                self.topics[name], side.partitions, side.configs))
        self.prepare()
        for number in range(self.timing["pairs"]):
            slots = []
            for name in order(list(self.sides), number):
                slots.append((name, self.slot(name, self.timing["seconds"])))
                self.tell(number, *slots[-1])
            self.rounds.append(slots)
        for name in self.sides:
            self.working(name, lambda server, name=name: server.delete(self.topics[name]))
        return self

    def working(self, name, action):
        """Only this side's server runs meanwhile, and what others left to the disk is on it before."""
        server = self.servers.get(self.sides[name].server)
        os.sync()
        server.resume()
        try:
            return action(server)
        finally:
            server.pause()

    def filled(self, name, options, seconds):
        """perf/load with these options, without a rate if there is none; what has another generator has that."""
        side, timing = self.sides[name], {"seconds": seconds, "warmup": 0}
        if side.server == "redis":
            return self.working(name, lambda server: redis(side, self.topics[name], server, self.row.options, timing))
        return self.working(name, lambda server: load(side, self.topics[name], server.address, options, timing))

    def prepare(self):
        """Fills and warms each side, all thrown away; then the rate is found."""
        for name in self.sides:
            self.warm_to_read(name) if self.row.tool == "read" else self.warm(name)
        if isinstance(self.row.rate, Half):
            found = self.row.rate.side if self.row.rate.side in self.sides else next(iter(self.sides))
            peak = self.filled(found, self.row.peak, self.timing["seconds"])
            self.peaks[found] = peak["records"] / self.timing["seconds"]
            self.rate = self.peaks[found] / 2
            say(f"{self.row.name}: {found} reaches {self.peaks[found]:.0f} records/s; all get half of it")

    def warm(self, name):
        """Until the side has its bytes, and a record takes as much CPU as in the turn before: a JVM compiles for long."""
        shape, done, costs = self.row.peak or self.row.options, 0, []
        fill = self.row.fill if self.sides[name].server == "coreflume" else 0  # Others write new files for ever.
        for _ in range(self.timing["turns"]):
            before = self.servers.get(self.sides[name].server).usage()
            turn = self.filled(name, shape, self.timing["warm"])
            done += turn["bytes"]
            used = self.servers.get(self.sides[name].server).usage().since(before)
            costs.append(used.cpu_s / max(turn["records"], 1))
            if done >= fill and is_steady(costs):
                return
        self.warnings.append(f"{name}: after {len(costs)} turns of warm-up {done / 1e6:.0f} of {fill / 1e6:.0f} MB were written, and "
                             f"a record took {costs[-1] / costs[0]:.2f} of the CPU that it took in the first: not steady yet")

    def warm_to_read(self, name):
        shape = self.row.peak
        rate = self.row.fill / (shape["records"] * shape["record"]) / 2
        self.filled(name, shape | {"rate": rate}, 2)
        self.slot(name, self.timing["warm"])

    def slot(self, name, seconds):
        side, row = self.sides[name], self.row
        is_paced = self.rate is not None
        timing = {"seconds": seconds, "warmup": WARM_S if is_paced else 0}
        options = dict(row.options)
        if is_paced:
            options["rate"] = max(1, round(self.rate / (options["records"] if row.tool == "load" else 1)))

        def measured(server):
            before, busy, own = server.usage(), machine_busy_s(), children_s()
            if side.server == "redis":
                told = redis(side, self.topics[name], server, options, timing)
            else:
                told = TOOLS[row.tool](side, self.topics[name], server.address, options, timing)
            used, generator_s = server.usage().since(before), children_s() - own
            others = machine_busy_s() - busy - used.cpu_s - generator_s
            return told | {"cpu_s": used.cpu_s, "generator_cpu_s": generator_s, "others_cpu_s": others,
                           "written": used.written}
        values = self.working(name, measured)
        values["command"] = " ".join(map(str, values["command"])).replace(str(ROOT) + "/", "")
        values["cpu_s_per_million"] = values["cpu_s"] / values["records"] * 1e6 if values["records"] else None
        values["written_per_byte"] = values["written"] / values["bytes"] if values["bytes"] and row.tool != "read" else None
        if values["errors"]:
            self.warnings.append(f"{name}: {values['errors']} records or requests failed or were not answered")
        self.warnings += [f"{name}: {text}" for text in values.get("warnings", [])]
        return values

    def tell(self, number, name, values):
        figures = " ".join(f"{key}={values[key]:.4g}" for key in (
            "cpu_s_per_million", "p50_us", "p99_us", "p999_us", "MB_per_s", "written_per_byte", "others_cpu_s")
            if values.get(key) is not None)
        say(f"{self.row.name} {number + 1}/{self.timing['pairs']} {name}: {figures}")
