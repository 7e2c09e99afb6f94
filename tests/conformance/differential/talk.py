"""One side of a conversation: builds requests from the protocol's declarations, and keeps answers as plain values."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from bowstring.protocol import API_VERSIONS, ZERO_UUID, decode_response, encode_request
from bowstring.protocol.schema import ARRAY, STRUCT, Field, Struct, fields_of
from tests.conformance.differential.plain import Aliases, keyed, plain
from tests.support.waiting import FOR_EVER_MS, HANG_S, wait_until
from tests.support.wire import Wire, frame

API_KEYS = {API_VERSIONS[key].name: key for key in API_VERSIONS}

CLOSED = "(closed the connection)"
SILENT = "(no answer)"
SETTLE_SECONDS = HANG_S


def _declared(field: Field) -> type[Struct]:
    assert field.struct is not None
    return field.struct


def build(declared: type[Struct], version: int, values: dict[str, Any]) -> Struct:
    """Builds a declared struct from dicts and lists; omits fields that `version` lacks."""
    known = {field.name: field for field in fields_of(declared)}
    unknown = set(values) - set(known)
    if unknown:
        raise TypeError(f"{declared.__name__} has no {', '.join(sorted(unknown))}")
    made: dict[str, Any] = {}
    for name, value in values.items():
        field = known[name]
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        if field.kind == STRUCT and value is not None:
            made[name] = build(_declared(field), version, value)
        elif field.kind == ARRAY and field.element == STRUCT and value is not None:
            made[name] = [build(_declared(field), version, each) for each in value]
        else:
            made[name] = value
    return declared(**made)


class Pending:
    """A sent request whose answer has not been read."""

    def __init__(
        self, talk: "Talk", wire: Wire, what: str, key: int, version: int, unordered: Mapping[str, str]
    ) -> None:
        self._talk, self._wire, self._what, self._unordered = talk, wire, what, unordered
        self._key, self._version = key, version

    def answer(self, *, learn: bool = False) -> Any:
        """Waits for the answer and adds it to the transcript; None if there was none.

        `learn` stores the names of the topic ids in the answer.
        """
        try:
            payload = self._wire.receive()
        except TimeoutError:
            self._talk.note(self._what, SILENT)
            self._talk.reconnect(self._wire)
            return None
        if payload is None:
            self._talk.note(self._what, CLOSED)
            self._talk.reconnect(self._wire)
            return None
        _, response = decode_response(self._key, self._version, payload)
        if learn:
            for topic in response.topics:  # type: ignore[attr-defined]
                self._talk.know(topic.name, topic.topic_id)
        found = plain(response, self._version, self._talk.aliases)
        for name, key in self._unordered.items():
            found[name] = keyed(found[name], key)
        self._talk.note(self._what, found)
        return response


class Talk:
    """A conversation with one broker.

    Attributes:
        version: the version under test, for scripts that run in each version of an API.
        transcript: (request, answer) in order.
    """

    def __init__(
        self,
        host: str,
        port: int,
        prefix: str,
        version: int,
        ports: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        self.version = version
        self.prefix = prefix
        self.transcript: list[tuple[str, Any]] = []
        self.aliases = Aliases()
        self.topic_ids: dict[str, bytes] = {}
        self._host, self._port, self._ports = host, port, ports
        self._wires: dict[str, Wire] = {}
        self._others: list[Wire] = []

    def name(self, short: str) -> str:
        """Returns a topic or group name that no other conversation uses, the same for both brokers."""
        return f"{self.prefix}.{short}"

    def note(self, what: str, answer: Any) -> None:
        """Adds to the transcript."""
        self.transcript.append((what, answer))

    def close(self) -> None:
        """Closes every connection."""
        for wire in (*self._wires.values(), *self._others):
            wire.sock.close()

    def address(self, listener: str) -> tuple[str, int]:
        """Returns host and port of a listener."""
        return self._host, self._ports[listener]

    def also_close(self, wire: Wire) -> None:
        """Closes a connection that a script opened itself at the end of the conversation."""
        self._others.append(wire)

    def has(self, on: str) -> bool:
        """Whether there is a connection called so."""
        return on in self._wires

    def adopt(self, on: str, wire: Wire) -> None:
        """Takes a connection that a script has opened for requests on the connection called `on`."""
        self._wires[on] = wire

    def reconnect(self, closed: Wire) -> None:
        """Drops a connection, so that the next request opens another one."""
        for name, wire in list(self._wires.items()):
            if wire is closed:
                wire.sock.close()
                del self._wires[name]

    # ------------------------------------------------------------ requests

    def send(
        self,
        api: str,
        version: int,
        /,
        *,
        on: str = "",
        note: str = "",
        unordered: Mapping[str, str] = MappingProxyType({}),
        **fields: Any,
    ) -> Pending:
        """Sends a request on the connection called `on`; `unordered` names lists to compare by a key."""
        key = API_KEYS[api]
        request = build(API_VERSIONS[key].request, version, fields)
        wire = self.wire(on)
        wire.send(frame(encode_request(request, version, 1, f"differential{on}")))  # type: ignore[arg-type]
        what = f"{api} v{version}{' ' + note if note else ''}"
        return Pending(self, wire, what, key, version, unordered)

    def wire(self, on: str = "") -> Wire:
        """Returns the connection of this name; opens it if needed."""
        if on not in self._wires:
            self._wires[on] = Wire(self._host, self._port, timeout_s=SETTLE_SECONDS)
        return self._wires[on]

    def ask(self, api: str, version: int, /, **fields: Any) -> Any:
        """Sends a request, adds the answer to the transcript and returns it decoded."""
        return self.send(api, version, **fields).answer()

    def quietly(self, api: str, version: int, /, **fields: Any) -> Any:
        """Sends a request whose answer a script needs, but does not compare."""
        before = len(self.transcript)
        known = self.aliases.snapshot()
        try:
            return self.ask(api, version, **fields)
        finally:
            del self.transcript[before:]
            self.aliases.restore(known)

    def until(self, done: Callable[[Any], bool], api: str, version: int, /, **fields: Any) -> Any:
        """Repeats a request that is not compared until `done` is true: Kafka applies acknowledged changes later."""

        def settled() -> Any:
            answer = self.quietly(api, version, **fields)
            return answer if answer is not None and done(answer) else None

        return wait_until(settled, f"{api} {fields} did not settle")

    # ------------------------------------------------------------ topics

    def topic(self, short: str, partitions: int = 1, **configs: str) -> str:
        """Creates a topic (underscores in configs for dots) and waits until its partitions have leaders."""
        name = self.name(short)
        wanted = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
        made = self.quietly(
            "CreateTopics",
            7,
            topics=[{"name": name, "num_partitions": partitions, "replication_factor": 1, "configs": wanted}],
        )
        assert made.topics[0].error_code == 0, made.topics[0].error_message
        self.know(name, made.topics[0].topic_id)
        self.led(name, partitions)
        return name

    def know(self, name: str, topic_id: bytes) -> bytes:
        """Assigns a topic id its name in the transcript."""
        if topic_id != ZERO_UUID:
            self.topic_ids[name] = topic_id
        self.aliases.topics[topic_id] = name
        return topic_id

    def know_all(self) -> None:
        """Assigns the ids of all topics their names in the transcript."""
        for topic in self.quietly("Metadata", 12, topics=None).topics:
            self.know(topic.name, topic.topic_id)

    def led(self, name: str, partitions: int = 1) -> None:
        """Waits until the broker answers as the leader of every partition."""
        wanted = [{"partition_index": index, "timestamp": -1} for index in range(partitions)]
        self.until(
            lambda answer: not any(each.error_code for each in answer.topics[0].partitions),
            "ListOffsets",
            1,
            replica_id=-1,
            topics=[{"name": name, "partitions": wanted}],
        )

    def gone(self, name: str) -> None:
        """Waits until Metadata no longer lists the topic."""
        self.until(
            lambda answer: answer.topics[0].error_code == 3,
            "Metadata",
            8,
            topics=[{"name": name}],
            allow_auto_topic_creation=False,
        )

    def write(self, topic: str, records: bytes, partition: int = 0, acks: int = -1) -> Any:
        """Produces without a comparison, and expects success."""
        data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
        answer = self.quietly("Produce", 9, acks=acks, timeout_ms=FOR_EVER_MS, topic_data=data)
        part = answer.responses[0].partition_responses[0]
        assert part.error_code == 0, part.error_code
        return part
