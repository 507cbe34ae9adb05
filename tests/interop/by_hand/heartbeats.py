#!/usr/bin/env python3
"""How clients of KIP-848 keep the heartbeat interval that the coordinator's answer names.

Apache Kafka behind a proxy that rewrites HeartbeatIntervalMs, or holds the answer back; one member of each client,
then a second that takes half of its partitions. `heartbeats.py [CLIENT...]`
"""
import dataclasses
import socket
import statistics
import struct
import sys
import threading
import time

from support.clients import CLIENTS, Client
from support.definitions import codec
from support.groups import Group
from support.kafka_tools import ApacheKafka, install
from support.node import fresh_dir
from support.wire import Connection, Reader, i32

CLIENT_FOLDERS = ("confluent_kafka", "java", "franz_go")
HEARTBEAT = 68
PARTITIONS = 12
SESSION_MS = 10000
# Seconds, the interval in the answers, how long each answer is held back (ms).
PHASES = [(4, 200, 0), (5, 1000, 0), (9, 3000, 0), (4, 200, 0), (8, 1000, 900), (9, 3000, 2900), (15, 200, 3000)]


@dataclasses.dataclass
class Beat:
    asked: float
    answered: float = None
    request: dict = None
    answer: dict = None


class Proxy:
    """Between one broker and its clients. Heartbeats' answers are rewritten, all else passes."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.broker, self.interval_ms, self.hold_ms = None, None, 0
        self.beats = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            broker = socket.create_connection(self.broker)
            for one in (client, broker):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            waiting = {}
            threading.Thread(target=self._requests, args=(client, broker, waiting), daemon=True).start()
            threading.Thread(target=self._answers, args=(broker, client, waiting), daemon=True).start()

    @staticmethod
    def frames(source):
        stream = source.makefile("rb")
        while len(head := stream.read(4)) == 4:
            yield stream.read(struct.unpack(">i", head)[0])

    def _requests(self, client, broker, waiting):
        try:
            for frame in self.frames(client):
                key, version, correlation = struct.unpack(">hhi", frame[:8])
                if key == HEARTBEAT:
                    c, r = codec("consumer_group_heartbeat", version), Reader(frame[8:])
                    r.string()
                    r.tags()
                    waiting[correlation] = (c, Beat(time.monotonic(), request=c.read(c.api.request.root, r)))
                    self.beats.append(waiting[correlation][1])
                broker.sendall(i32(len(frame)) + frame)
        except OSError:
            pass
        broker.close()

    def _answers(self, broker, client, waiting):
        try:
            for frame in self.frames(broker):
                found = waiting.pop(struct.unpack(">i", frame[:4])[0], None)
                if found:
                    frame = self._rewritten(frame, *found)
                client.sendall(i32(len(frame)) + frame)
        except OSError:
            pass
        client.close()

    def _rewritten(self, frame, c, beat):
        r = Reader(frame[4:])
        r.tags()
        beat.answer = c.read(c.api.response.root, r)
        if self.interval_ms:
            beat.answer["heartbeat_interval_ms"] = self.interval_ms
        time.sleep(self.hold_ms / 1000)
        beat.answered = time.monotonic()
        return frame[:4] + b"\0" + c.write(c.api.response.root, beat.answer)


def milliseconds(found):
    found = [round(1000 * one) for one in found]
    return f"{statistics.median(found):.0f} ({min(found)} to {max(found)})" if found else "none"


def phases(proxy):
    """Of each: from a heartbeat to the next, and from an answer to the next heartbeat."""
    for seconds, proxy.interval_ms, proxy.hold_ms in PHASES:
        time.sleep(max(1, proxy.hold_ms / 1000))  # What was due by the last answer before.
        since = time.monotonic()
        time.sleep(seconds)
        beats = [beat for beat in proxy.beats if beat.asked >= since]
        pairs = list(zip(beats, beats[1:]))
        print(f"   interval {proxy.interval_ms}, held {proxy.hold_ms}: ms from one to the next "
              f"{milliseconds([after.asked - before.asked for before, after in pairs])}, from its answer "
              f"{milliseconds([after.asked - before.answered for before, after in pairs if before.answered])}", flush=True)
    proxy.hold_ms = 0


def what(beat):
    request = {name: value for name, value in beat.request.items() if value not in (None, -1) and name not in ("group_id", "member_id")}
    answer = {name: value for name, value in beat.answer.items() if value not in (None, 0) and name != "member_id"} if beat.answer else None
    return f"{request} -> {answer}"


def one(folder, kafka, proxy):
    client = Client(CLIENTS / folder, proxy.address)
    client.install()
    topic = f"beats-{folder}"
    with Connection(kafka.kafka) as c:
        c.create_topic(topic, PARTITIONS)
    group = Group(PARTITIONS, fresh_dir(f"heartbeats/{folder}"))
    words = [*client.member(), topic, topic, "consumer", "-", str(SESSION_MS), "500"]
    print(f"{folder}:", flush=True)
    try:
        proxy.interval_ms, proxy.hold_ms, proxy.beats[:] = 3000, 0, []
        group.join(group.load(words, "first"))
        group.settle("one member")
        for beat in proxy.beats[:5]:
            print(f"   {what(beat)[:230]}")
        phases(proxy)
        second = group.load(words, "second")
        second.wait_loaded()
        proxy.interval_ms, proxy.beats[:] = 1000, []
        joined = time.monotonic()
        group.join(second)
        group.settle("two members")
        last = max(member.changed_at for member in group.living) / 1e9
        print(f"   a second joins: settled in {1000 * (last - joined):.0f} ms")
        for beat in proxy.beats[:12]:
            print(f"   {1000 * (beat.asked - joined):6.0f}: {what(beat)[:200]}")
        for member in group.living:
            member.close()
        print(f"   errors: {[event for log in group.logs() for event in log.of('error', 'lost', 'refused')]}")
        print(f"   the last heartbeats: {[beat.request['member_epoch'] for beat in proxy.beats[-2:]]}", flush=True)
    finally:
        group.end()


def main():
    install()
    proxy = Proxy()
    with ApacheKafka("heartbeats", f"advertised.listeners=PLAINTEXT://{proxy.address}", "group.initial.rebalance.delay.ms=0",
                     "group.consumer.min.session.timeout.ms=1000", f"group.consumer.session.timeout.ms={SESSION_MS}",
                     "group.consumer.min.heartbeat.interval.ms=100", "group.consumer.heartbeat.interval.ms=500") as kafka:
        host, port = kafka.kafka.rsplit(":", 1)
        proxy.broker = host, int(port)
        for folder in sys.argv[1:] or CLIENT_FOLDERS:
            one(folder, kafka, proxy)
    print("1 passed, 0 failed")


if __name__ == "__main__":
    main()
