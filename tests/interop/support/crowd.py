"""Many connections that cost the one who makes them little: plain sockets, and requests encoded once."""
import socket
import struct

from . import wire
from .check import expect
from .definitions import codec


def dial(node):
    """A connected socket. Closed with a reset, so that thousands leave no port in TIME_WAIT."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    host, port = node.kafka.rsplit(":", 1)
    s.settimeout(60)
    s.connect((host, int(port)))
    return s


def frame(name, version, request):
    """A request with its length."""
    c = codec(name, version)
    body = wire.i16(c.api.key) + wire.i16(version) + wire.i32(7) + wire.string("crowd")
    body += (wire.NO_TAGS if c.flexible else b"") + c.write(c.api.request.root, request)
    return wire.i32(len(body)) + body


def take(s, size):
    data = b""
    while len(data) < size:
        part = s.recv(size - len(data))
        expect(part, "closed by the broker")
        data += part
    return data


def answered(s):
    """The bytes of one answer, without its length."""
    return take(s, struct.unpack(">i", take(s, 4))[0])
