"""Moves replicas between brokers for commands: throttles, begins, and waits with progress."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from bowstring.cli.output import error_console, print_error
from bowstring.clients.errors import BrokerError, ClientError, ConfigError
from bowstring.clients.records import TopicPartition
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin
    from bowstring.clients.admin.results import Reassignment
    from bowstring.clients.records import TopicInfo

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS_THROTTLED = "leader.replication.throttled.replicas"
FOLLOWERS_THROTTLED = "follower.replication.throttled.replicas"
DONE, MOVING, OTHER = "done", "moving", "other"
_LOOK_S = 0.3

Replicas = dict[TopicPartition, tuple[int, ...]]


class State(NamedTuple):
    """How far a partition is: `done`, `moving`, or `other`: nothing moves, but it has other replicas."""

    partition: TopicPartition
    state: str
    replicas: tuple[int, ...]
    wanted: tuple[int, ...]


# ------------------------------------------------------------ what is there


def replicas_of(topics: Mapping[str, TopicInfo]) -> Replicas:
    """Returns the brokers of all partitions of the topics."""
    return {
        TopicPartition(name, number): info.replicas
        for name, topic in topics.items()
        for number, info in topic.partitions.items()
    }


def on_broker(admin: Admin, broker: int) -> list[TopicPartition]:
    """Returns the partitions that have a replica on a broker."""
    found = replicas_of(admin.topics(internal=True))
    return [partition for partition, replicas in found.items() if broker in replicas]


def sizes(admin: Admin) -> dict[TopicPartition, dict[int, int]]:
    """Returns the bytes of each replica by broker; empty if brokers do not report them."""
    found: dict[TopicPartition, dict[int, int]] = {}
    try:
        directories = admin.describe_log_dirs()
    except ClientError:
        return {}
    for broker, dirs in directories.items():
        for each in dirs:
            for partition, replica in each.replicas.items():
                if not replica.is_future:
                    found.setdefault(partition, {})[broker] = replica.size_bytes
    return found


def states(admin: Admin, wanted: Replicas) -> list[State]:
    """Returns how far each partition of a plan is.

    Raises:
        ConfigError: A partition does not exist.
    """
    ongoing = admin.list_reassignments()
    current = replicas_of(admin.topics(internal=True))
    _check_known(current, wanted)
    return [
        State(
            partition,
            MOVING if partition in ongoing else DONE if current[partition] == replicas else OTHER,
            current[partition],
            replicas,
        )
        for partition, replicas in sorted(wanted.items())
    ]


def _check_known(current: Replicas, wanted: Replicas) -> None:
    unknown = sorted(set(wanted) - set(current))
    if unknown:
        raise ConfigError(f"there is no partition {unknown[0]}; remove it from the plan")


# ------------------------------------------------------------ beginning and cancelling


def begin(admin: Admin, wanted: Replicas, *, rate: int | None, additional: bool) -> list[TopicPartition]:
    """Sets throttles and begins the moves; returns the partitions that change.

    Raises:
        ConfigError: A partition or broker does not exist.
        ClientError: Others are moving already.
        BrokerError: The controller refuses one; the others have begun.
    """
    ongoing = admin.list_reassignments()
    if ongoing and not additional:
        raise ClientError(
            f"{len(ongoing)} reassignments are under way, such as that of {min(ongoing)}; wait for them, "
            "cancel them (bowstring reassign cancel --all), or add --additional to reassign"
        )
    current = replicas_of(admin.topics(internal=True))
    _check_known(current, wanted)
    brokers = {each.id for each in admin.describe_brokers()}
    for partition, replicas in wanted.items():
        if unknown := sorted(set(replicas) - brokers):
            raise ConfigError(f"the plan puts {partition} on broker {unknown[0]}, which is not registered")
    changed = {
        partition: replicas
        for partition, replicas in wanted.items()
        if partition in ongoing or current[partition] != replicas
    }
    if rate is not None:
        throttle(admin, current, changed, ongoing, rate)
    if changed:
        admin.alter_reassignments(changed)
    return sorted(changed)


def prefer_directories(admin: Admin, directories: Mapping[tuple[TopicPartition, int], str]) -> None:
    """Sets the directories in which brokers keep replicas: they move existing ones, and remember the
    directory of those that they get later.

    Raises:
        BrokerError: A broker has no such directory.
    """
    for (partition, broker), path in sorted(directories.items()):
        try:
            admin.move_replicas([partition], path, broker)
        except BrokerError as error:
            if error.code != Errors.REPLICA_NOT_AVAILABLE.code:
                raise


def throttle(
    admin: Admin,
    current: Replicas,
    wanted: Replicas,
    ongoing: Mapping[TopicPartition, Reassignment],
    rate: int,
) -> None:
    """Limits the moves, as Kafka's tool does: a rate for each broker, and the replicas that it holds for."""
    ends = {partition: set(each.replicas) - set(each.removing) for partition, each in ongoing.items()}
    ends.update({partition: set(replicas) for partition, replicas in wanted.items()})
    sources = {partition: set(current[partition]) for partition in ends}
    for partition, each in ongoing.items():
        sources[partition] -= set(each.adding)
    targets = {partition: end - sources[partition] for partition, end in ends.items()}
    for topic in sorted({partition.topic for partition in sources}):
        values = {
            LEADERS_THROTTLED: _pairs(topic, sources),
            FOLLOWERS_THROTTLED: _pairs(topic, targets),
        }
        admin.alter_configs("topic", topic, set={name: value for name, value in values.items() if value})
    involved = {broker for each in (*sources.values(), *targets.values()) for broker in each}
    there = {each.id for each in admin.describe_cluster().brokers}
    for broker in sorted(involved & there):
        admin.alter_configs("broker", str(broker), set=dict.fromkeys(RATES, str(rate)))


def _pairs(topic: str, brokers: Mapping[TopicPartition, Iterable[int]]) -> str:
    return ",".join(
        f"{partition.partition}:{broker}"
        for partition, each in sorted(brokers.items())
        if partition.topic == topic
        for broker in sorted(each)
    )


def remove_throttles(admin: Admin, topics: Iterable[str]) -> None:
    """Removes the throttles of the topics, and the rates of all brokers that answer."""
    for broker in admin.describe_cluster().brokers:
        try:
            admin.alter_configs("broker", str(broker.id), delete=RATES)
        except ClientError as error:
            print_error(f"the throttled rates of broker {broker.id} stay: {error}")
    there = admin.topics(internal=True)
    for topic in sorted(set(topics) & set(there)):
        admin.alter_configs("topic", topic, delete=(LEADERS_THROTTLED, FOLLOWERS_THROTTLED))


def check_done(found: list[State]) -> None:
    """Checks that all partitions of a plan have the planned replicas.

    Raises:
        ClientError: Some do not have them.
    """
    left = [each for each in found if each.state != DONE]
    if not left:
        return
    other = [each for each in left if each.state != MOVING]
    moving = len(left) - len(other)
    told = f"{moving} are moving" if moving else "none is moving"
    if other:
        told += f"; execute the plan (again) for {len(other)}, such as {other[0].partition}"
    raise ClientError(f"{len(left)} of {len(found)} partitions do not have the planned replicas: {told}")


# ------------------------------------------------------------ waiting


def wait(admin: Admin, wanted: Replicas, *, shown: bool) -> list[State]:
    """Waits until nothing of a plan moves; returns the states."""
    with _progress(len(wanted), shown=shown) as tell:
        while True:
            found = states(admin, wanted)
            if not any(each.state == MOVING for each in found):
                return found
            tell(_share(found, sizes(admin) if shown else {}))
            time.sleep(_LOOK_S)


def _share(found: Iterable[State], known: Mapping[TopicPartition, Mapping[int, int]]) -> float:
    """Returns how many partitions are there, counting each that moves by its bytes."""
    share = 0.0
    for each in found:
        bytes_by_broker = known.get(each.partition, {})
        full = max(bytes_by_broker.values(), default=0)
        if each.state != MOVING:
            share += 1
        elif full > 0:
            share += min(bytes_by_broker.get(broker, 0) for broker in each.wanted) / full
    return share


@contextmanager
def _progress(total: int, *, shown: bool) -> Iterator[Callable[[float], None]]:
    if not shown:
        yield lambda done: None
        return
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (TextColumn("moving"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=error_console(), transient=True) as bar:
        task = bar.add_task("moving", total=total)
        yield lambda done: bar.update(task, completed=done)
