"""Requests that are too long, too short or carry unknown tags, in each API's oldest and newest version."""

from collections.abc import Iterator

from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS, encode_request
from bowstring.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnTransaction
from tests.conformance.differential.compare import conversation
from tests.conformance.differential.talk import CLOSED, SILENT, Talk
from tests.support.waiting import HANG_S
from tests.support.wire import frame, string

CLIENT_ID = "frames"
ANY = 1  # of each kind of filter of access control entries
AFTER_CLIENT_ID = 8 + len(string(CLIENT_ID))
UNKNOWN_TAG = b"\1" + b"\x8f\x4e" + b"\3abc"


def requests() -> Iterator[tuple[str, bytes, bool]]:
    """A request with every field at its default: its name, its bytes and whether it has tags."""
    for key in sorted(BY_BROKER.offered):
        api = API_VERSIONS[key]
        for version in sorted({api.lowest, api.highest}):
            request = api.request()
            if api.name == "Produce":
                request.acks = 1  # type: ignore[attr-defined]
            if api.name == "AddPartitionsToTxn" and version >= 4:
                # Without transactions, Kafka never answers this one.
                request.transactions = [AddPartitionsToTxnTransaction()]  # type: ignore[attr-defined]
            if api.name == "DescribeAcls":
                # Kafka closes the connection for filters of UNKNOWN, and says nothing.
                for field in ("resource_type_filter", "pattern_type_filter", "operation", "permission_type"):
                    setattr(request, field, ANY)
            data = encode_request(request, version, 1, CLIENT_ID)
            yield f"{api.name} v{version}", data, version >= api.flexible_from


def ask(talk: Talk, note: str, data: bytes) -> None:
    """Sends a frame; the comparison is whether the broker answers."""
    wire = talk.wire()
    wire.sock.settimeout(HANG_S)
    wire.send(frame(data))
    try:
        answer = wire.receive()
    except TimeoutError:
        talk.note(note, SILENT)
        talk.reconnect(wire)
        return
    talk.note(note, CLOSED if answer is None else "answered")
    if answer is None:
        talk.reconnect(wire)


@conversation()
def test_lengths(talk: Talk) -> None:
    for name, data, _ in requests():
        ask(talk, f"{name}", data)
        ask(talk, f"{name} and more", data + b"\0\0\0")
        ask(talk, f"{name} less a byte", data[:-1])


@conversation()
def test_tags(talk: Talk) -> None:
    for name, data, flexible in requests():
        if flexible:
            ask(talk, f"{name}", data[:-1] + UNKNOWN_TAG)
            ask(talk, f"{name}, header", data[:AFTER_CLIENT_ID] + UNKNOWN_TAG + data[AFTER_CLIENT_ID + 1 :])


@conversation()
def test_headers(talk: Talk) -> None:
    head = bytes.fromhex("0012 0000 00000007")
    for note, data in (
        ("null client id", head + b"\xff\xff"),
        ("empty client id", head + b"\0\0"),
        ("client id of nonsense length", head + b"\xff\xfe"),
        ("client id too long", head + b"\0\5ab"),
        ("client id no text", head + b"\0\2\xff\xfe"),
        ("no client id", head),
        ("half a header", head[:5]),
        ("nothing", b""),
    ):
        ask(talk, note, data)
