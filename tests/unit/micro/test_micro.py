"""Goal: a count that grew is refused, one that cannot be compared is not judged and says so.

Run by meson; needs the path of perf/micro as its argument.
"""

import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv.pop())

import micro  # noqa: E402  (the path comes from the command line)

HERE = {"compiler": "gcc 12.2.0", "libc": "glibc 2.36", "valgrind": "valgrind-3.19.0", "cpu": "x86_64 with AVX2"}
BASELINE = {"why": "", "made_with": HERE, "counts": {"produce": 1000.0, "fetch": 2000.0}}

# A function that calls another one, and its caller.
DUMP = """\
# callgrind format
events: Ir
summary: 60

fl=a.c
fn=append
10 15
cfn=copy
calls=3 20
12 30
14 5
fn=copy
21 30
fn=begin
cfn=append
calls=2 10
7 50
8 10

totals: 60
"""


class Judge(unittest.TestCase):
    def check(self, counts, passed, failed, skipped, said="", here=None):
        verdict = micro.judge(counts, here or HERE, BASELINE)
        self.assertEqual((verdict.passed, verdict.failed, verdict.skipped), (passed, failed, skipped))
        self.assertIn(said, "\n".join(verdict.lines))

    def test_within(self):
        self.check({"produce": 1000.0, "fetch": 2000.0}, 2, 0, 0)
        self.check({"produce": 1020.0, "fetch": 1960.0}, 2, 0, 0)
        self.assertEqual(micro.judge(BASELINE["counts"], HERE, BASELINE).lines, [])

    def test_more(self):
        self.check({"produce": 1030.0, "fetch": 2000.0}, 1, 1, 0, "FAILED produce: 1030.0 instructions, +3.0%")
        self.check({"produce": 1021.0, "fetch": 2041.0}, 0, 2, 0, "micro.py --write WHY, in the same commit")

    def test_less(self):
        self.check({"produce": 970.0, "fetch": 2000.0}, 2, 0, 0, "better than the baseline: write it")

    def test_cases_come_and_go(self):
        self.check({"produce": 1000.0, "fetch": 2000.0, "new": 1.0}, 2, 1, 0, "FAILED new: not in the baseline")
        self.check({"produce": 1000.0}, 1, 1, 0, "FAILED fetch: in the baseline, and no case any more")

    def test_elsewhere(self):
        for name in HERE:
            other = {**HERE, name: "another"}
            self.check({"produce": 9999.0, "fetch": 2000.0}, 0, 0, 2, f"{name}: {HERE[name]!r} made the baseline", other)
            self.check({"produce": 9999.0, "fetch": 2000.0}, 0, 0, 2, "NOT JUDGED", other)


class Dump(unittest.TestCase):
    def test_profile(self):
        p = micro.Profile(DUMP)
        self.assertEqual(p.total, 60)
        self.assertEqual(dict(p.alone), {"append": 20, "copy": 30, "begin": 10})
        self.assertEqual(dict(p.inclusive), {"copy": 30, "append": 50})
        self.assertEqual(dict(p.calls), {"copy": 3, "append": 2})
        self.assertEqual(dict(p.callers["append"]), {"begin": 50})

    def test_derived(self):
        of_produce, of_more = micro.Profile(DUMP), micro.Profile("summary: 460\n")
        of_produce.inclusive["log_append"] = 12
        counts = micro.counts_of([("produce", 2, of_produce), ("produce_more_records", 2, of_more),
                                  ("fetch", 1, micro.Profile("summary: 7\n"))])
        self.assertEqual(counts, {"produce": 30.0, "extra record": 2.0, "append": 6.0, "fetch": 7.0})


if __name__ == "__main__":
    unittest.main()
