"""Short functions for the steps of a fetch session (KIP-227)."""

from bowstring.protocol.messages import fetch as f
from tests.support.plane_requests import fetch, fetch_topic


def open_session(client, version=17, partitions=(0, 1), **options):
    request = fetch(version, session_epoch=0, **options)
    request.topics = [
        fetch_topic(
            version,
            [f.FetchPartition(partition=p, fetch_offset=0, partition_max_bytes=1 << 20) for p in partitions],
        )
    ]
    answer = client.call(request, version)
    assert answer.error_code == 0
    return answer


def step(session_id, epoch, version=17, topics=(), forgotten=(), **options):
    request = fetch(version, session_id=session_id, session_epoch=epoch, **options)
    request.topics = list(topics)
    request.forgotten_topics_data = list(forgotten)
    return request


def at(partition, offset, version=17):
    return fetch_topic(
        version, [f.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)]
    )
