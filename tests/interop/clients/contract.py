"""What every client program in Python shares: the verbs of the contract (README.md) and its JSON lines.

A program gives `main` one object whose methods are the verbs; a verb it does not have, or that raises
Unsupported, is answered with {"unsupported": why}."""
import base64
import collections
import json
import select
import sys

Record = collections.namedtuple("Record", "partition key value headers timestamp offset", defaults=(None,))


class Unsupported(Exception):
    pass


def decoded(text):
    return None if text is None else base64.b64decode(text)


def encoded(data):
    return None if data is None else base64.b64encode(data).decode()


def is_asked_to_end():
    """The input is over."""
    return select.select([sys.stdin], [], [], 0)[0] != [] and sys.stdin.read(1) == ""


def put(**fields):
    print(json.dumps(fields), flush=False)


def put_record(record):
    put(partition=record.partition, key=encoded(record.key), value=encoded(record.value),
        headers=[[name, encoded(value)] for name, value in record.headers or []],
        timestamp=record.timestamp, offset=record.offset)


def records_in():
    for line in sys.stdin:
        fields = json.loads(line)
        yield Record(fields["partition"], decoded(fields["key"]), decoded(fields["value"]),
                     [(name, decoded(value)) for name, value in fields["headers"]], fields["timestamp"])


def main(client):
    """PROGRAM BROKERS VERB ARGS...; `client` is made with BROKERS."""
    brokers, verb, *rest = sys.argv[1:]
    try:
        run(client(brokers), verb, rest)
    except Unsupported as why:
        put(unsupported=str(why))
    except Exception as error: # Whatever a library throws is the answer of this program.
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        sys.exit(1)


def run(client, verb, rest):
    if not hasattr(client, {"admin": "admin_calls"}.get(verb, verb)):
        raise Unsupported(f"no {verb} in this client")
    if verb == "versions":
        put(**client.versions())
    elif verb == "create":
        client.create(rest[0], int(rest[1]))
    elif verb == "delete":
        client.delete(rest[0])
    elif verb == "produce":
        topic, codec, acks, idempotent = rest
        for record, offset in client.produce(topic, codec, int(acks), idempotent == "1", list(records_in())):
            put(partition=record.partition, offset=offset)
    elif verb == "read":
        for record in client.read(rest[0], int(rest[1])):
            put_record(record)
    elif verb == "lookup":
        offset, timestamp = client.lookup(rest[0], int(rest[1]), int(rest[2]))
        put(offset=offset, timestamp=timestamp)
    elif verb == "member":
        client.member(rest)
    elif verb == "pattern":
        for event, fields in client.pattern(*rest):
            put(event=event, **fields)
            sys.stdout.flush()
    elif verb == "admin":
        call = "connect"
        try:
            for call, answer in client.admin_calls(rest[0], int(rest[1])):
                if isinstance(answer, Unsupported):
                    put(call=call, unsupported=str(answer))
                else:
                    put(call=call, answer=answer)
        except Exception as error:
            raise RuntimeError(f"after {call}: {error}") from error
    else:
        raise SystemExit(f"no such verb: {verb}")
