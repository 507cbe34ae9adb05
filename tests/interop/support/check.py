"""The smallest test runner: functions named test_*, a line each, a tally at the end."""
import sys
import time
import traceback


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(actual, wanted, what=""):
    if actual != wanted:
        raise AssertionError(f"{what}: got {actual!r}, wanted {wanted!r}")


def run_all(module_globals):
    """Runs every test_* of the calling script (or those named on the command line); exits."""
    wanted = sys.argv[1:]
    passed = failed = 0
    for name, function in list(module_globals.items()):
        if not name.startswith("test_") or not callable(function):
            continue
        if wanted and not any(text in name for text in wanted):
            continue
        began = time.monotonic()
        try:
            function()
            passed += 1
            print(f"ok {name} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {name}\n{traceback.format_exc()}", flush=True)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)
