"""Describes the internal topic of a coordinator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class InternalTopic:
    """A topic whose partitions are the logs of shards.

    Attributes:
        name: Its name.
        partitions_config: The broker config with its number of partitions.
        replication_config: The broker config with its replication factor.
        configs: Returns its topic configs, given a function that returns a broker config by name.
        keys: What hashes to the partitions, for messages: "transactional ids".
        unreadable_advice: What to do about a log that cannot be read.
    """

    name: str
    partitions_config: str
    replication_config: str
    configs: Callable[[Callable[[str], Any]], Mapping[str, str]]
    keys: str
    unreadable_advice: str = "restore its directory from a copy"
