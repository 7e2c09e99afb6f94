"""What nodes of all roles have: id, directories, data plane, listeners of controllers, metadata."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from bowstring._native.server.data_plane import DataPlane
from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.listener_configs import misnamed
from bowstring.engine.requests.listeners import Listener, is_loopback
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directories import LogDirectories
from bowstring.engine.storage.log_directory import META_PROPERTIES
from bowstring.protocol.versions import api_range

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ImageSource
    from bowstring.engine.quorum.service import QuorumService
    from bowstring.engine.security.authentication import Authentication

_MOST_REACTORS_BY_DEFAULT: Final = 4


def node_id_of(configs: BrokerConfigs) -> int:
    """Returns the node's id, and sets broker.id to it.

    Raises:
        ConfigError: node.id and broker.id differ.
    """
    old, new = configs.value("broker.id"), configs.value("node.id")
    if "broker.id" in configs.static and old >= 0:
        if "node.id" in configs.static and new != old:
            raise ConfigError(
                f"node.id is {new} and broker.id is {old}; both name the same setting, so set only node.id"
            )
        new = old
        configs.static["node.id"] = str(old)
    # As in Kafka, so that clients that read the older name find it.
    configs.static["broker.id"] = str(new)
    return int(new)


def new_log_directories(configs: BrokerConfigs) -> LogDirectories:
    """Returns the log directories of the configs, not opened."""
    value = configs.value
    paths = value("log.dirs") or value("log.dir")
    directories = LogDirectories(paths, value("metadata.log.dir"), slow_ms=value("bowstring.log.dir.slow.ms"))
    for directory in directories.all:
        directory.tails.pool_bytes = value("bowstring.tail.pool.bytes")
        directory.tails.from_bytes = value("bowstring.tail.from.bytes")
        directory.page_cache = value("bowstring.page.cache")
    return directories


class NodeLostError(OSError):
    """The node cannot continue: its directories or its replica of the metadata log failed."""

    def __init__(self, directories: LogDirectories) -> None:
        super().__init__(directories.why_lost or "the replica of the metadata quorum has failed")


def check_formatted(directories: LogDirectories) -> None:
    """Refuses a directory without an identity: it would become a cluster of its own.

    Raises:
        DataDirectoryError: It is not formatted.
    """
    path = directories.metadata.path
    if not (path / META_PROPERTIES).exists():
        raise DataDirectoryError(
            f"{path} is not formatted, so it is not known which cluster this node belongs to; run bowstring "
            "format --config FILE --cluster-id ID with the cluster's id on each of its nodes"
        )


def check_listener_configs(configs: BrokerConfigs) -> None:
    """Refuses protecting configs of a listener that has no such name, and warns of others.

    Raises:
        ConfigError: The message has all of them, and the names that exist.
    """
    refusals, warnings = misnamed(configs)
    if refusals:
        raise ConfigError("\n".join(refusals))
    for each in warnings:
        event_log.warning("a config of a listener has no effect; correct its name", detail=each)


def make_plane(configs: BrokerConfigs, offered: tuple[int, ...], *, is_controller: bool = False) -> DataPlane:
    """Returns the data plane of a broker or a controller that offers these APIs."""
    value = configs.value
    reactors = value("bowstring.reactor.threads") or max(
        1, min(_MOST_REACTORS_BY_DEFAULT, (os.cpu_count() or 1) // 2)
    )
    plane = DataPlane(
        apis={
            key: (api.lowest, api.highest, api.flexible_from)
            for key, api in zip(offered, map(api_range, offered), strict=True)
        },
        is_controller=is_controller,
        reactors=1 if is_controller else reactors,
        request_max_bytes=value("socket.request.max.bytes"),
        fetch_max_bytes=value("fetch.max.bytes"),
        session_slots=value("max.incremental.fetch.session.cache.slots"),
        connections_max_idle_ms=value("connections.max.idle.ms"),
        quota_samples=value("quota.window.num"),
        quota_window_ms=value("quota.window.size.seconds") * 1000,
        sasl_max_bytes=value("sasl.server.max.receive.size"),
        authentication_max_ms=value("bowstring.authentication.timeout.ms"),
    )
    plane.verify_transactions(value("transaction.partition.verification.enable"))
    return plane


def new_authentication(
    configs: BrokerConfigs, listeners: Sequence[Listener], plane: DataPlane, metadata: "ImageSource"
) -> "Authentication | None":
    """Returns what authenticates the connections of these listeners; None when none of them does.

    Raises:
        ConfigError: A listener lacks a mechanism, or what the mechanism needs.
    """
    if all(each.protocol == "PLAINTEXT" for each in listeners):
        return None
    # Imported late: a node without security starts without it.
    from bowstring.engine.security.authentication import Authentication
    from bowstring.engine.security.credentials import credentials_of

    authentication = Authentication(configs, listeners, plane, credentials_of(metadata, configs))
    authentication.warn(is_loopback)
    return authentication


def behind(quorum: "QuorumService") -> str | None:
    """Returns how far the metadata of this node is behind; None when it has all that is committed."""
    if quorum.end_offset >= quorum.high_watermark:
        return None
    return f"the node has applied its metadata up to offset {quorum.end_offset} of {quorum.high_watermark}"


def caught_up(quorum: "QuorumService") -> Callable[[], bool]:
    """Returns a function of whether this node has had all committed metadata once since now."""
    begun = quorum.high_watermark

    def ask() -> bool:
        if quorum.is_leader:
            return True
        known = quorum.leader_id >= 0 and quorum.high_watermark > begun
        return known and quorum.end_offset >= quorum.high_watermark

    return ask
