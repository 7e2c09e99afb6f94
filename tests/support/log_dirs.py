"""Queries a broker for its log directories."""

from bowstring.protocol.messages.describe_log_dirs import DescribeLogDirsRequest


def described(served) -> dict:
    results = served.ask(DescribeLogDirsRequest(topics=None)).results
    return {result.log_dir.rpartition("/")[2]: result for result in results}


def homes(served, topic="t") -> dict[int, str]:
    return {
        part.partition_index: name
        for name, result in described(served).items()
        for found in result.topics
        if found.name == topic
        for part in found.partitions
        if not part.is_future_key
    }
