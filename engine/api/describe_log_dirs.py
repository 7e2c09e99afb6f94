"""DescribeLogDirs: data directories, and the size of each partition in them (KIP-113)."""

import os
from typing import TYPE_CHECKING

from bowstring.engine.errors import Errors
from bowstring.engine.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from bowstring.engine.broker.broker import Broker
    from bowstring.engine.broker.request import Request


async def handle(broker: "Broker", request: "Request") -> DescribeLogDirsResponse:
    """Describes this broker's directory.

    Behaviour: null topics ask for every partition; partitions that are not here are left out.

    Versions: 3 adds a top-level error; 4 the size of the volume and what is free of it (KIP-827); 5 whether
    the directory is cordoned.
    """
    body: DescribeLogDirsRequest = request.body
    wanted = None if body.topics is None else {topic.topic: set(topic.partitions) for topic in body.topics}
    partitions: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic, index, log in broker.logs:
        if wanted is None or index in wanted.get(topic, ()):
            entry = DescribeLogDirsPartition(partition_index=index, partition_size=log.size_bytes)
            partitions.setdefault(topic, []).append(entry)
    result = DescribeLogDirsResult(
        log_dir=str(broker.directory.path),
        topics=[DescribeLogDirsTopic(name=name, partitions=entries) for name, entries in partitions.items()],
    )
    try:
        volume = os.statvfs(broker.directory.path)
        result.total_bytes = volume.f_frsize * volume.f_blocks
        result.usable_bytes = volume.f_frsize * volume.f_bavail
    except OSError:
        result.error_code = Errors.KAFKA_STORAGE_ERROR.code
    return DescribeLogDirsResponse(results=[result])
