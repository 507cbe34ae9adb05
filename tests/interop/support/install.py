"""What scripts that run side by side share in build/interop is installed once."""
import contextlib
import fcntl


@contextlib.contextmanager
def alone(installed):
    """One process at a time installs into this folder."""
    installed.parent.mkdir(parents=True, exist_ok=True)
    with open(f"{installed}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
