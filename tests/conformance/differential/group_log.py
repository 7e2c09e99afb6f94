"""Shows the records of a group in __consumer_offsets."""

import re
from collections.abc import Callable

from tests.conformance.differential.fetching import part
from tests.conformance.differential.settings import SETTINGS
from tests.conformance.differential.talk import Talk
from tests.support.reference_batch import PREFIX, decode

_UUID = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# Times in ms of the years 2020 to 2039.
_NOW = re.compile(rb"\0\0\x01[\x6f-\xff]....|\0\0\x02[\0-\x01]....", re.DOTALL)


def plainly(talk: Talk, data: bytes | None) -> str:
    """Bytes as text, without what chance and the moment chose."""
    if data is None:
        return "null"
    for name, topic_id in talk.topic_ids.items():
        data = data.replace(topic_id, f"<id of {name}>".encode())
    return repr(_NOW.sub(b"<now>", _UUID.sub(b"<uuid>", data)))


Record = tuple[bytes, bytes | None]


def told(
    talk: Talk, note: str, group: str, comparable: Callable[[Record], Record] = lambda record: record
) -> None:
    """Keys and values of the records about a group, in order; `comparable` hides what differs in a record."""
    found = []
    for partition in range(int(SETTINGS["offsets.topic.num.partitions"])):
        topics = [{"topic": "__consumer_offsets", "partitions": [part(partition)]}]
        answer = talk.quietly("Fetch", 12, max_wait_ms=0, min_bytes=0, topics=topics)
        data = bytes(answer.responses[0].partitions[0].records or b"")
        while len(data) >= PREFIX.size:
            size = PREFIX.size + PREFIX.unpack_from(data)[1]
            if len(data) < size:
                break
            batch, records = decode(data[:size])
            data = data[size:]
            about = [each for each in records if each.key is not None and group.encode() in each.key]
            for each in about:
                assert each.key is not None
                key, value = comparable((each.key, each.value))
                found.append(
                    {
                        "attributes": batch.attributes,
                        "key": plainly(talk, key),
                        "value": plainly(talk, value),
                    }
                )
    talk.note(note, found)
