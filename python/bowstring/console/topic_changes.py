"""Reads the forms that change topics, says in sentences what they would do, and does it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ConfigError
from bowstring.clients.records import TopicInfo, TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin


@dataclass(frozen=True, slots=True)
class TopicChange:
    """A change that waits for a confirmation.

    Attributes:
        title: what it is.
        sentences: what happens, one for each effect.
        check: asks the cluster whether it would do it, without doing it; None where it cannot.
        apply: does it.
        button: of the confirmation.
        danger: whether data is lost.
    """

    title: str
    sentences: Sequence[str]
    check: Callable[[Admin], Any] | None
    apply: Callable[[Admin], Any]
    button: str
    danger: bool = False


def whole_number(fields: Mapping[str, str], name: str, what: str, least: int = 1) -> int:
    """Returns a number of a form.

    Raises:
        ConfigError: it is not a whole number of at least `least`.
    """
    text = fields.get(name, "").strip()
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least or len(text) > 18:
        raise ConfigError(f"{what} is {text[:40]!r}; write a whole number of at least {least}")
    return number


def configs_of_lines(text: str) -> dict[str, str]:
    """Parses lines of `name=value`.

    Raises:
        ConfigError: a line has no `=`.
    """
    found = {}
    for line in filter(None, (each.strip() for each in text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"configs: {line[:80]!r} is not name=value; write one config in each line")
        found[name.strip()] = value.strip()
    return found


def creation(fields: Mapping[str, str]) -> TopicChange:
    """Returns the creation of a topic.

    Raises:
        ConfigError: a field is wrong.
    """
    from bowstring.clients.admin.results import NewTopic

    name = fields.get("name", "").strip()
    if not name:
        raise ConfigError("the topic has no name; write one of letters, digits, '.', '_' and '-'")
    partitions = whole_number(fields, "partitions", "partitions")
    factor_text = fields.get("replication_factor", "").strip()
    factor = whole_number(fields, "replication_factor", "replicas") if factor_text else -1
    configs = configs_of_lines(fields.get("configs", ""))
    topic = NewTopic(name, partitions, factor, configs)
    replicas = "the brokers' default number of" if factor < 0 else str(factor)
    sentences = [f"The topic {name} is created with {partitions} partitions and {replicas} replicas of each."]
    sentences += [f"{key} is set to {value}." for key, value in configs.items()]
    return TopicChange(
        f"Create {name}",
        sentences,
        lambda admin: admin.create_topics([topic], validate_only=True),
        lambda admin: admin.create_topics([topic]),
        "Create the topic",
    )


def more_partitions(topic: TopicInfo, fields: Mapping[str, str]) -> TopicChange:
    """Returns the addition of partitions.

    Raises:
        ConfigError: the number is not larger than now.
    """
    now = len(topic.partitions)
    wanted = whole_number(fields, "partitions", "partitions", now + 1)
    return TopicChange(
        f"Raise partitions of {topic.name}",
        [
            f"The topic {topic.name} gets {wanted - now} more partitions: {wanted} instead of {now}.",
            "Records with keys go to other partitions from then on, so the order of a key's records is lost "
            "across the change.",
            "Partitions cannot be removed again.",
        ],
        lambda admin: admin.create_partitions({topic.name: wanted}, validate_only=True),
        lambda admin: admin.create_partitions({topic.name: wanted}),
        "Add the partitions",
    )


def deletion(topic: TopicInfo) -> TopicChange:
    """Returns the deletion of a topic."""
    return TopicChange(
        f"Delete {topic.name}",
        [
            f"The topic {topic.name} is deleted with all records of its {len(topic.partitions)} partitions.",
            "This cannot be undone.",
        ],
        None,
        lambda admin: admin.delete_topics([topic.name]),
        "Delete the topic",
        danger=True,
    )


def config_change(topic: TopicInfo, fields: Mapping[str, str], now: Mapping[str, Any]) -> TopicChange:
    """Returns a change of one config, or its return to the default. `now`: entries by name.

    Raises:
        ConfigError: there is no such config, or it cannot be changed.
    """
    name, value = fields.get("config", "").strip(), fields.get("value", "")
    entry = now.get(name)
    if entry is None or entry.read_only:
        raise ConfigError(f"topics have no config {name[:80]!r} that can be changed; choose one of the list")
    reset = fields.get("reset") == "1"
    before = "hidden" if entry.sensitive else entry.value
    changes: dict[str, Any] = {"delete": [name]} if reset else {"set": {name: value}}
    after = "returns to the value of the broker" if reset else f"is set to {value}"
    return TopicChange(
        f"Change {name} of {topic.name}",
        [f"{name} of {topic.name} {after}. It is {before} now."],
        lambda admin: admin.alter_configs("topic", topic.name, **changes, validate_only=True),
        lambda admin: admin.alter_configs("topic", topic.name, **changes),
        "Change the config",
    )


def record_deletion(
    topic: TopicInfo, fields: Mapping[str, str], begins: Mapping[int, int], ends: Mapping[int, int]
) -> TopicChange:
    """Returns the deletion of a partition's first records, or of all records of all partitions.

    Raises:
        ConfigError: the partition or the offset does not exist.
    """
    if fields.get("everything") == "1":
        before = {TopicPartition(topic.name, number): end for number, end in ends.items()}
    else:
        number = whole_number(fields, "partition", "partition", 0)
        if number not in ends:
            raise ConfigError(f"{topic.name} has no partition {number} with a leader")
        offset = whole_number(fields, "offset", "offset", 0)
        if not begins.get(number, 0) < offset <= ends[number]:
            raise ConfigError(
                f"offset {offset} deletes nothing: partition {number} has offsets {begins.get(number, 0)} to "
                f"{ends[number]}; write the first offset to keep"
            )
        before = {TopicPartition(topic.name, number): offset}
    sentences = [
        f"{partition} loses its records below offset {offset}: {offset - begins.get(partition.partition, 0)} "
        "offsets."
        for partition, offset in list(before.items())[:20]
    ]
    if len(before) > 20:
        sentences.append(f"The same happens in {len(before) - 20} more partitions.")
    return TopicChange(
        f"Delete records of {topic.name}",
        [*sentences, "This cannot be undone. Compacted topics refuse it."],
        None,
        lambda admin: admin.delete_records(before),
        "Delete the records",
        danger=True,
    )
