"""Kafka's wire by hand, for what no client sends: raw frames, chosen versions, broken batches."""
import gzip
import socket
import struct
import time

_TABLE = []
for _byte in range(256):
    _crc = _byte
    for _ in range(8):
        _crc = (_crc >> 1) ^ (0x82F63B78 if _crc & 1 else 0)
    _TABLE.append(_crc)


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


# ---- writing ----

def i8(v): return struct.pack(">b", v)
def i16(v): return struct.pack(">h", v)
def i32(v): return struct.pack(">i", v)
def i64(v): return struct.pack(">q", v)


def uvarint(v):
    out = bytearray()
    while v >= 0x80:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    return bytes(out + bytes([v]))


def varint(v):
    return uvarint((v << 1) ^ (v >> 63) if v < 0 else v << 1)


def string(s):
    return i16(-1) if s is None else i16(len(s.encode())) + s.encode()


def compact(s):
    return uvarint(0) if s is None else uvarint(len(s.encode()) + 1) + s.encode()


def array(items):
    return i32(len(items)) + b"".join(items)


def compact_array(items):
    return uvarint(len(items) + 1) + b"".join(items)


NO_TAGS = b"\0"


def record(key, value, timestamp_delta=0, offset_delta=0):
    def field(data):
        return varint(-1) if data is None else varint(len(data)) + data
    body = i8(0) + varint(timestamp_delta) + varint(offset_delta) + field(key) + field(value) + varint(0)
    return varint(len(body)) + body


def batch(values, producer_id=-1, epoch=-1, sequence=-1, timestamps=None, keys=None, **fault):
    """One record batch. fault overrides header fields: base_offset, magic, attributes, last_delta,
    count, crc, records (bytes)."""
    timestamps = timestamps or [int(1000 * time.time())] * len(values)  # Old ones would meet retention at a roll.
    records = fault.get("records", b"".join(
        record(keys[i] if keys else None, value, timestamps[i] - timestamps[0], i) for i, value in enumerate(values)))
    attributes = fault.get("attributes", 0)
    if attributes & 7 == 1 and "records" not in fault:
        records = gzip.compress(records)
    body = (i16(attributes) + i32(fault.get("last_delta", len(values) - 1)) + i64(timestamps[0]) +
            i64(max(timestamps)) + i64(producer_id) + i16(epoch) + i32(sequence) +
            i32(fault.get("count", len(values))) + records)
    crc = fault.get("crc", crc32c(body))
    rest = i32(-1) + i8(fault.get("magic", 2)) + struct.pack(">I", crc) + body
    return i64(fault.get("base_offset", 0)) + i32(len(rest)) + rest


# ---- reading ----

class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if size < 0 or self.at + size > len(self.data):
            raise EOFError(f"{size} bytes at {self.at} of {len(self.data)}")
        self.at += size
        return self.data[self.at - size:self.at]

    def left(self): return len(self.data) - self.at
    def i8(self): return struct.unpack(">b", self.take(1))[0]
    def i16(self): return struct.unpack(">h", self.take(2))[0]
    def i32(self): return struct.unpack(">i", self.take(4))[0]
    def i64(self): return struct.unpack(">q", self.take(8))[0]

    def uvarint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def string(self):
        size = self.i16()
        return None if size < 0 else self.take(size).decode(errors="replace")

    def compact(self):
        size = self.uvarint()
        return None if size == 0 else self.take(size - 1).decode(errors="replace")

    def bytes(self):
        size = self.i32()
        return None if size < 0 else self.take(size)

    def compact_bytes(self):
        size = self.uvarint()
        return None if size == 0 else self.take(size - 1)

    def array(self, read):
        return [read(self) for _ in range(self.i32())]

    def compact_array(self, read):
        return [read(self) for _ in range(self.uvarint() - 1)]

    def tags(self):
        for _ in range(self.uvarint()):
            self.uvarint()
            self.take(self.uvarint())

    def end(self):
        if self.left():
            raise ValueError(f"{self.left()} bytes left over")


class Connection:
    def __init__(self, address, seconds=10):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self): return self
    def __exit__(self, *_): self.socket.close()

    def send_raw(self, data):
        self.socket.sendall(data)

    def send(self, key, version, body, flexible=False, client_id="raw"):
        """Returns the correlation id."""
        self.correlation_id += 1
        frame = (i16(key) + i16(version) + i32(self.correlation_id) + string(client_id) +
                 (NO_TAGS if flexible else b"") + body)
        self.send_raw(i32(len(frame)) + frame)
        return self.correlation_id

    def receive(self):
        """One frame; EOFError when the peer closed."""
        size = struct.unpack(">i", self._exactly(4))[0]
        return Reader(self._exactly(size))

    def _exactly(self, size):
        data = b""
        while len(data) < size:
            try:
                part = self.socket.recv(size - len(data))
            except ConnectionResetError:
                part = b""
            if not part:
                raise EOFError("closed by the broker")
            data += part
        return data

    def ask(self, key, version, body, flexible=False, header_tags=None):
        """Sends, receives, checks the correlation id, passes the header."""
        wanted = self.send(key, version, body, flexible)
        reader = self.receive()
        got = reader.i32()
        if got != wanted:
            raise ValueError(f"correlation id {got}, wanted {wanted}")
        if flexible if header_tags is None else header_tags:
            reader.tags()
        return reader

    # ---- the requests that tests need, in one fixed version each ----

    def create_topic(self, name, partitions=1, configs=None):
        """CreateTopics v2; returns the error code."""
        pairs = [string(k) + string(v) for k, v in (configs or {}).items()]
        topic = string(name) + i32(partitions) + i16(1) + array([]) + array(pairs)
        r = self.ask(19, 2, array([topic]) + i32(10000) + i8(0))
        r.i32()
        return r.array(lambda r: (r.string(), r.i16(), r.string()))[0][1]

    def delete_topic(self, name):
        """DeleteTopics v1; returns the error code."""
        r = self.ask(20, 1, array([string(name)]) + i32(10000))
        r.i32()
        return r.array(lambda r: (r.string(), r.i16()))[0][1]

    def produce(self, topic, partition, data, acks=-1, version=8, timeout_ms=10000):
        """Returns (error, base offset, record errors, message)."""
        body = (string(None) + i16(acks) + i32(timeout_ms) +
                array([string(topic) + array([i32(partition) + i32(len(data)) + data])]))
        if acks == 0:
            self.send(0, version, body)
            return None
        r = self.ask(0, version, body)

        def partition_response(r):
            r.i32()
            error, offset = r.i16(), r.i64()
            r.i64()
            if version >= 5:
                r.i64()
            errors, message = [], None
            if version >= 8:
                errors = r.array(lambda r: (r.i32(), r.string()))
                message = r.string()
            return error, offset, errors, message
        topics = r.array(lambda r: (r.string(), r.array(partition_response)))
        r.i32()
        r.end()
        return topics[0][1][0]

    def fetch(self, topic, partition, offset, version=11, max_wait_ms=500, min_bytes=1,
              max_bytes=1 << 26, partition_max_bytes=1 << 20):
        """Returns (error, high watermark, record bytes)."""
        wanted = i32(partition)
        wanted += i32(-1) if version >= 9 else b""
        wanted += i64(offset)
        wanted += i64(-1) if version >= 5 else b""
        wanted += i32(partition_max_bytes)
        body = i32(-1) + i32(max_wait_ms) + i32(min_bytes) + i32(max_bytes) + i8(0)
        body += i32(0) + i32(-1) if version >= 7 else b""
        body += array([string(topic) + array([wanted])])
        body += array([]) if version >= 7 else b""
        body += string("") if version >= 11 else b""
        r = self.ask(1, version, body)
        r.i32()
        if version >= 7:
            equal_error = r.i16()
            session = r.i32()
            if equal_error or session:
                raise ValueError(f"fetch: error {equal_error}, session {session}")

        def partition_response(r):
            r.i32()
            error, high = r.i16(), r.i64()
            r.i64()
            if version >= 5:
                r.i64()
            for _ in range(max(r.i32(), 0)):
                r.take(16)
            if version >= 11:
                r.i32()
            return error, high, r.bytes()
        topics = r.array(lambda r: (r.string(), r.array(partition_response)))
        r.end()
        return topics[0][1][0]

    def list_offsets(self, topic, partition, timestamp, version=5, isolation=0):
        """Returns (error, timestamp, offset, epoch)."""
        wanted = i32(partition) + (i32(-1) if version >= 4 else b"") + i64(timestamp)
        body = i32(-1) + (i8(isolation) if version >= 2 else b"") + array([string(topic) + array([wanted])])
        r = self.ask(2, version, body)
        if version >= 2:
            r.i32()
        topics = r.array(lambda r: (r.string(), r.array(
            lambda r: (r.i32(), r.i16(), r.i64(), r.i64(), r.i32() if version >= 4 else None))))
        r.end()
        return topics[0][1][0][1:]

    def init_producer_id(self, transactional_id=None):
        """InitProducerId v0; returns (error, id, epoch)."""
        r = self.ask(22, 0, string(transactional_id) + i32(2147483647))
        r.i32()
        return r.i16(), r.i64(), r.i16()


def zero_crc_batch(size):
    """A batch of one value of that size, with the checksum 0: the value's last four bytes are chosen for that.

    The checksum register can be driven to any state by four bytes, from behind: each table entry's top
    byte is unique. Behind the value stands only the number of headers, one byte 0."""
    timestamps = [int(1000 * time.time())]
    body = batch([bytes(size)], timestamps=timestamps)[21:]
    free_at = len(body) - 5
    register = 0xFFFFFFFF
    for byte in body[:free_at]:
        register = _TABLE[(register ^ byte) & 0xFF] ^ (register >> 8)
    # The end: register ^ 0xFFFFFFFF == 0. Back over the byte 0, then over the four.
    by_top = {entry >> 24: i for i, entry in enumerate(_TABLE)}
    wanted = 0xFFFFFFFF
    i = by_top[wanted >> 24]
    wanted = ((wanted ^ _TABLE[i]) << 8 | i) & 0xFFFFFFFF  # Its low byte met the byte 0.
    indexes = []
    for _ in range(4):
        i = by_top[wanted >> 24]
        indexes.append(i)
        wanted = (wanted ^ _TABLE[i]) << 8 & 0xFFFFFFFF
    chosen = bytearray()
    for i in reversed(indexes):
        chosen.append((register ^ i) & 0xFF)
        register = _TABLE[i] ^ (register >> 8)
    return batch([bytes(size - 4) + bytes(chosen)], timestamps=timestamps)


def batches(data):
    """Splits record bytes: (base offset, attributes, last delta, records bytes) of each batch."""
    found, r = [], Reader(data)
    while r.left():
        base = r.i64()
        inner = Reader(r.take(r.i32()))
        inner.take(9)
        attributes, last_delta = inner.i16(), inner.i32()
        inner.take(8 + 8 + 8 + 2 + 4 + 4)
        found.append((base, attributes, last_delta, inner.take(inner.left())))
    return found
