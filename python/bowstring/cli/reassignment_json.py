"""Reads and writes plans of reassignments in the JSON of Kafka's ReassignPartitions command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"


def to_json(assignment: Mapping[TopicPartition, Iterable[int]]) -> dict[str, Any]:
    """Returns a plan; directories are left to the brokers."""
    partitions = []
    for partition, replicas in sorted(assignment.items()):
        brokers = list(replicas)
        partitions.append(
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "replicas": brokers,
                "log_dirs": [ANY_DIRECTORY] * len(brokers),
            }
        )
    return {"version": VERSION, "partitions": partitions}


def read(path: Path) -> dict[TopicPartition, tuple[int, ...]]:
    """Reads a plan.

    Raises:
        ConfigError: The file is no plan, or asks for what this command does not do; the message says where.
        OSError: It cannot be read.
    """
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(plan, dict) or not isinstance(plan.get("partitions"), list):
        raise ConfigError(f'{path} has no list "partitions"; `bowstring reassign plan` writes such files')
    if plan.get("version", VERSION) != VERSION:
        raise ConfigError(f"{path} has version {plan['version']!r}; only version {VERSION} is known")
    found: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(plan["partitions"], 1):
        try:
            partition, replicas = _entry(entry)
        except ValueError as error:
            raise ConfigError(f"{path}, entry {number} of partitions: {error}") from error
        if partition in found:
            raise ConfigError(f"{path} names {partition} twice")
        found[partition] = replicas
    return found


def _entry(entry: Any) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise ValueError(f"{entry!r} is not an object")
    topic, number, replicas = entry.get("topic"), entry.get("partition", -1), entry.get("replicas")
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"topic is {topic!r}, not a name")
    if not _is_id(number):
        raise ValueError(f"partition is {number!r}, not a number")
    if not isinstance(replicas, list) or not replicas or not all(map(_is_id, replicas)):
        raise ValueError(f"replicas is {replicas!r}, not a list of broker ids")
    if len(set(replicas)) < len(replicas):
        raise ValueError(f"replicas is {replicas!r}, which names a broker twice")
    directories = entry.get("log_dirs", [ANY_DIRECTORY] * len(replicas))
    if directories != [ANY_DIRECTORY] * len(replicas):
        raise ValueError(
            'log_dirs must be "any" for each replica; move replicas between the directories of a broker '
            "with `bowstring topics move`"
        )
    return TopicPartition(topic, number), tuple(replicas)


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
