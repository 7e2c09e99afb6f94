"""Fetch in every version: offsets, sizes, epochs, isolation, missing topics and partitions, followers."""

from typing import Any

from bowstring._native.record.encode import encode_batch
from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.fetching import (
    NOBODYS_ID,
    begin,
    fetch,
    fetch_sorted,
    part,
    quiet_fetch,
    records,
    written,
)
from tests.conformance.differential.talk import Talk
from tests.support.waiting import FOR_EVER_MS

CODECS = (1, 2, 3, 4)
FAR = 0x7FFFFFFFFFFFFFFF


@conversation(versions("Fetch"))
def test_offsets(talk: Talk) -> None:
    topic = written(talk, "t", 3, 1, 2)
    for offset in (0, 1, 2, 3, 4, 5, 6, 7, 1000, -1, -2, FAR, -FAR):
        fetch(talk, f"at {offset}", (topic, [part(offset=offset)]))
    empty = talk.topic("empty")
    for offset in (0, 1, -1):
        fetch(talk, f"empty at {offset}", (empty, [part(offset=offset)]))
    talk.quietly(
        "DeleteRecords",
        2,
        topics=[{"name": topic, "partitions": [{"partition_index": 0, "offset": 2}]}],
        timeout_ms=5000,
    )
    for offset in (0, 1, 2, 3, 4, 6):
        fetch(talk, f"trimmed at {offset}", (topic, [part(offset=offset)]))
    fetch(talk, "log start offset told", (topic, [part(offset=2, log_start_offset=1)]))


@conversation(versions("Fetch"))
def test_sizes(talk: Talk) -> None:
    topic = written(talk, "t", 1, 1, 1)
    batch_bytes = len(records(1))
    large = written(talk, "large", 50, 1)
    for size in (0, 1, 11, 60, 61, batch_bytes - 1, batch_bytes, batch_bytes + 1, 2 * batch_bytes):
        fetch(talk, f"partition_max_bytes {size}", (topic, [part(partition_max_bytes=size)]))
        fetch(talk, f"max_bytes {size}", (topic, [part()]), max_bytes=size)
        both = [part(partition_max_bytes=size)]
        fetch(talk, f"two topics, partition_max_bytes {size}", (topic, both), (large, both))
        fetch(talk, f"two topics, max_bytes {size}", (topic, [part()]), (large, [part()]), max_bytes=size)
        fetch(talk, f"large first, max_bytes {size}", (large, [part()]), (topic, [part()]), max_bytes=size)
        fetch(
            talk, f"inside, partition_max_bytes {size}", (large, [part(offset=3, partition_max_bytes=size)])
        )
        fetch(talk, f"both {size}", (topic, both), max_bytes=size)
    empty = talk.topic("empty")
    fetch(talk, "empty first", (empty, [part()]), (topic, [part()]), max_bytes=1)
    fetch(talk, "bad offset first", (topic, [part(offset=77)]), (large, [part()]), max_bytes=1)


@conversation(versions("Fetch"))
def test_negative_sizes(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    fetch(talk, "partition_max_bytes", (topic, [part(partition_max_bytes=-1)]))
    fetch(talk, "max_bytes", (topic, [part()]), max_bytes=-1)


@conversation(versions("Fetch"))
def test_waiting(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    for least in (-1, 0, 1):
        fetch(talk, f"min_bytes {least}", (topic, [part()]), min_bytes=least)
    fetch(talk, "too little", (topic, [part()]), min_bytes=100_000, max_wait_ms=20)
    fetch(talk, "nothing", (topic, [part(offset=1)]), min_bytes=1, max_wait_ms=20)
    fetch(talk, "negative wait", (topic, [part(offset=1)]), min_bytes=1, max_wait_ms=-1)
    fetch(talk, "an error does not wait", (topic, [part(offset=9)]), min_bytes=1, max_wait_ms=4000)
    fetch(talk, "unknown partition", (topic, [part(7)]), min_bytes=1, max_wait_ms=4000)
    fetch(talk, "nothing asked", min_bytes=1, max_wait_ms=4000)
    rows = [part(offset=1)]
    pending = begin(talk, "written meanwhile", (topic, rows), min_bytes=1, max_wait_ms=FOR_EVER_MS)
    # On the same connection, the answer would wait for the fetch's answer.
    talk.quietly(
        "Produce",
        9,
        on="writer",
        acks=-1,
        timeout_ms=FOR_EVER_MS,
        topic_data=[{"name": topic, "partition_data": [{"index": 0, "records": records(2)}]}],
    )
    pending.answer()


@conversation(versions("Fetch"))
def test_what_is_not_there(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    unknown = talk.name("unknown")
    fetch_sorted(talk, "unknown topic", (unknown, [part()]))
    fetch_sorted(talk, "unknown and known topic", (unknown, [part()]), (topic, [part()]))
    fetch_sorted(talk, "unknown partition", (topic, [part(1), part(0), part(-1)]))
    fetch_sorted(talk, "no topics")
    fetch_sorted(talk, "many partitions", (topic, [part(index) for index in range(50)]))
    if talk.version < 13:
        for name in ("", "a b", ".", "__cluster_metadata"):
            fetch_sorted(talk, f"name {name!r}", (name, [part()]))
    else:
        talk.topic_ids["zero"] = bytes(16)
        fetch_sorted(talk, "zero id", ("zero", [part()]))
        talk.topic_ids["one"] = bytes(15) + b"\1"
        fetch_sorted(talk, "reserved id", ("one", [part()]))
        fetch_sorted(talk, "nobody's id twice", ("nobody", [part()]), ("nobody", [part(1)]))


@conversation(versions("Fetch"))
def test_named_twice(talk: Talk) -> None:
    topic, other = written(talk, "t", 1, 1, partitions=2), written(talk, "other", 1)
    fetch(talk, "topic twice", (topic, [part()]), (topic, [part(1)]))
    fetch(talk, "topic twice, another between", (topic, [part()]), (other, [part()]), (topic, [part(1)]))


@conversation(versions("Fetch"))
def test_partition_named_twice_or_none(talk: Talk) -> None:
    topic = written(talk, "t", 1, 1)
    fetch(talk, "twice", (topic, [part(), part(offset=1)]))
    fetch(talk, "no partitions", (topic, []))


@conversation(versions("Fetch"))
def test_isolation_levels(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    for level in (0, 1):
        fetch(talk, f"isolation {level}", (topic, [part()]), isolation_level=level)
        fetch(talk, f"isolation {level}, end", (topic, [part(offset=1)]), isolation_level=level)
        fetch(talk, f"isolation {level}, beyond", (topic, [part(offset=2)]), isolation_level=level)
        fetch(talk, f"isolation {level}, unknown", (topic, [part(4)]), isolation_level=level)


@conversation(versions("Fetch"))
def test_unknown_isolation_levels(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    for level in (2, -1):
        fetch(talk, f"isolation {level}", (topic, [part()]), isolation_level=level)


@conversation(versions("Fetch", 9))
def test_leader_epochs(talk: Talk) -> None:
    topic = written(talk, "t", 2, 1)
    for epoch in (-1, 0, 1, 1000, -2):
        for offset in (0, 3, 4):
            fetch(
                talk, f"epoch {epoch} at {offset}", (topic, [part(offset=offset, current_leader_epoch=epoch)])
            )
    fetch(talk, "unknown partition", (topic, [part(3, current_leader_epoch=5)]))


@conversation(versions("Fetch", 12))
def test_last_fetched_epochs(talk: Talk) -> None:
    topic, empty = written(talk, "t", 2, 1), talk.topic("empty")
    for name in (topic, empty):
        for epoch in (-1, 0, 1, 7, -2):
            for offset in (0, 2, 3, 4, 9):
                row = part(offset=offset, last_fetched_epoch=epoch)
                fetch(talk, f"{name} after epoch {epoch} at {offset}", (name, [row]))
    rows = [part(offset=1, last_fetched_epoch=0, current_leader_epoch=epoch) for epoch in (0, 5)]
    for row in rows:
        fetch(talk, f"current epoch {row['current_leader_epoch']} too", (topic, [row]))


@conversation(versions("Fetch"))
def test_codecs(talk: Talk) -> None:
    """Versions before 10 do not support zstd."""
    topic = talk.topic("t", partitions=5)
    for codec in CODECS:
        data = encode_batch([(b"k", b"v" * 100, 1_700_000_000_000, None)], codec)
        talk.write(topic, data, partition=codec)
        answer = quiet_fetch(talk, (topic, [part(codec)]))
        found = answer.responses[0].partitions[0]
        talk.note(
            f"codec {codec}", (found.error_code, bytes(found.records or b"") == data, found.high_watermark)
        )


@conversation(versions("Fetch"))
def test_zstd_topics(talk: Talk) -> None:
    topic = talk.topic("t", compression_type="zstd")
    fetch(talk, "empty", (topic, [part()]))
    talk.write(topic, records(1))
    answer = quiet_fetch(talk, (topic, [part()]))
    found = answer.responses[0].partitions[0]
    talk.note("written", (found.error_code, bool(found.records), found.high_watermark))


@conversation(versions("Fetch"))
def test_replicas(talk: Talk) -> None:
    """The request has the id of a replica, but the partition has no other replica."""
    topic = written(talk, "t", 1)
    for replica in (-2, -3, 7):
        who: dict[str, Any] = {"replica_id": replica, "replica_state": {"replica_id": replica}}
        fetch(talk, f"replica {replica}", (topic, [part()]), **who)


@conversation(versions("Fetch", 11))
def test_racks_and_clusters(talk: Talk) -> None:
    topic = written(talk, "t", 1)
    fetch(talk, "rack", (topic, [part()]), rack_id="r1")
    if talk.version >= 12:
        fetch(talk, "null cluster", (topic, [part()]), cluster_id=None)
        fetch(talk, "other cluster", (topic, [part()]), cluster_id="nobodys")
    if talk.version >= 17:
        fetch(talk, "directory", (topic, [part(replica_directory_id=NOBODYS_ID)]))
    if talk.version >= 18:
        for mark in (0, 1, -1):
            fetch(talk, f"high watermark {mark}", (topic, [part(offset=1, high_watermark=mark)]))
