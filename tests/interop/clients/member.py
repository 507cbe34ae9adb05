"""What members of groups in Python share: their lines (README.md, the verb `member`) and what they have received."""
import collections
import json
import sys
import threading
import time

COMMIT_SECONDS = 0.2
POLL_MS = 50

Joining = collections.namedtuple("Joining", "group topic protocol instance session_ms heartbeat_ms")


def joining(args):
    group, topic, protocol, instance, session_ms, heartbeat_ms = args
    return Joining(group, topic, protocol, None if instance == "-" else instance, int(session_ms), int(heartbeat_ms))


class Events:
    def __init__(self):
        self.positions = {} # Received and not committed.
        self.is_asked_to_end = False

    def say(self, event, **fields):
        sys.stdout.write(json.dumps({"at": time.monotonic_ns(), "event": event, **fields}) + "\n")
        sys.stdout.flush()

    def ready(self):
        """Returns when the group may be joined. The input's end ends the member."""
        self.say("ready")
        sys.stdin.readline()
        threading.Thread(target=self._await_end, daemon=True).start()

    def _await_end(self):
        sys.stdin.read()
        self.is_asked_to_end = True

    def partitions(self, event, partitions):
        numbers = sorted(p.partition for p in partitions)
        for number in numbers:
            self.positions.pop(number, None)
        if numbers:
            self.say(event, partitions=numbers)

    def record(self, partition, offset):
        self.say("record", partition=partition, offset=offset)
        self.positions[partition] = offset + 1

    def due(self, partitions=None):
        numbers = None if partitions is None else {p.partition for p in partitions}
        return {n: position for n, position in self.positions.items() if numbers is None or n in numbers}

    def committed(self, offsets):
        for number, position in offsets.items():
            if self.positions.get(number) == position:
                del self.positions[number]
        self.say("committed", offsets=offsets)

    def failed(self, event, error):
        """By the protocol's name, where it is one of its errors."""
        self.say(event, error=getattr(error, "message", None) or type(error).__name__)
