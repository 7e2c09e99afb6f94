"""Fetch requests written by hand are the bytes of the declared ones, in every version."""

import pytest

from bowstring.clients.consumer.fetch_config import FetchConfig
from bowstring.clients.consumer.requests import AskedTopic, FetchFrame
from bowstring.clients.consumer.requests import ForgottenTopic as Forgotten
from bowstring.protocol import frames
from bowstring.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from bowstring.protocol.versions import API_VERSIONS

RANGE = API_VERSIONS[FetchRequest.api_key]
CONFIG = FetchConfig(
    min_bytes=1,
    max_bytes=50 << 20,
    partition_max_bytes=1 << 20,
    prefetch_max_bytes=64 << 20,
    max_wait_ms=500,
    read_committed=True,
    check_crcs=True,
    reset_policy="earliest",
    rack="zone-1",
)
NAMED = {
    "one": [(0, 0, -1)],
    "zwölf": [(3, 1 << 40, 7), (1, 12, 0)],
    "t" * 249: [(number, number * 1000, 2) for number in range(300)],
}
FORGOTTEN = {"gone": [0, 2], "t" * 130: list(range(200))}


def _name(version, topic):
    return {"topic_id": _id(topic)} if version >= 13 else {"topic": topic}


def _id(topic):
    return bytes([len(topic)] * 16)


@pytest.mark.parametrize("version", range(RANGE.lowest, RANGE.highest + 1))
@pytest.mark.parametrize("client_id", ["", "grüße"])
@pytest.mark.parametrize("named", [{}, NAMED], ids=["nothing", "topics"])
def test_as_declared(version, client_id, named):
    gone = FORGOTTEN if named and version >= 7 else {}
    made = FetchFrame(
        CONFIG,
        17,
        42,
        {topic: AskedTopic(_id(topic), parts) for topic, parts in named.items()},
        {topic: Forgotten(_id(topic), parts) for topic, parts in gone.items()},
    ).buffers(version, 77, client_id)
    declared = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=50 << 20,
        isolation_level=1,
        session_id=17 if version >= 7 else 0,
        session_epoch=42 if version >= 7 else -1,
        rack_id="zone-1" if version >= 11 else "",
        topics=[
            FetchTopic(
                **_name(version, topic),
                partitions=[
                    FetchPartition(
                        partition=number,
                        fetch_offset=offset,
                        current_leader_epoch=epoch,
                        partition_max_bytes=1 << 20,
                    )
                    for number, offset, epoch in parts
                ],
            )
            for topic, parts in named.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(**_name(version, topic), partitions=parts) for topic, parts in gone.items()
        ],
    )
    expected = frames.encode_request(declared, version, 77, client_id)
    assert b"".join(made) == len(expected).to_bytes(4, "big") + expected


def test_a_topic_id_of_another_size():
    with pytest.raises(ValueError, match="16 bytes"):
        FetchFrame(CONFIG, 0, 0, {"t": AskedTopic(b"short", [])}, {}).buffers(13, 1, "c")
