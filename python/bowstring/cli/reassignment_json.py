"""Reads and writes plans of reassignments in the JSON of Kafka's ReassignPartitions command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicPartition

VERSION = 1
ANY_DIRECTORY = "any"


class Plan(NamedTuple):
    """A plan: the brokers of each partition, and the directories that it names for replicas, by partition and
    broker.
    """

    replicas: dict[TopicPartition, tuple[int, ...]]
    directories: dict[tuple[TopicPartition, int], str]


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


def read(path: Path) -> Plan:
    """Reads a plan.

    Raises:
        ConfigError: The file is no plan; the message says where.
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
    found = Plan({}, {})
    for number, entry in enumerate(plan["partitions"], 1):
        try:
            partition, replicas, directories = _entry(entry)
        except ValueError as error:
            raise ConfigError(f"{path}, entry {number} of partitions: {error}") from error
        if partition in found.replicas:
            raise ConfigError(f"{path} names {partition} twice")
        found.replicas[partition] = replicas
        for broker, directory in zip(replicas, directories, strict=True):
            if directory != ANY_DIRECTORY:
                found.directories[partition, broker] = directory
    return found


def _entry(entry: Any) -> tuple[TopicPartition, tuple[int, ...], list[str]]:
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
    if (
        not isinstance(directories, list)
        or len(directories) != len(replicas)
        or not all(isinstance(each, str) and each for each in directories)
    ):
        raise ValueError(f'log_dirs is {directories!r}, not a directory or "any" for each of the replicas')
    return TopicPartition(topic, number), tuple(replicas), directories


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
