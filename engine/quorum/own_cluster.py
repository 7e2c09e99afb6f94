"""Finds nodes that are clusters of their own: they name no other controller, and were formatted for none; and
says what differs for their logs.
"""

from pathlib import Path
from typing import Final

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.quorum import QUORUM_STATE, QuorumFacts, has_voters_in_log, stored_voters
from bowstring.engine.metadata.store.bootstrap import is_for_cluster
from bowstring.engine.quorum.applier import ImageApplier
from bowstring.engine.quorum.log import MetadataRaftLog
from bowstring.engine.quorum.settings import BROKER, CONTROLLER, QuorumSettings
from bowstring.engine.raft.voters import Node, Voter, VoterSet
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import META_PROPERTIES, METADATA_PARTITION_DIRECTORY

_NEVER_NS: Final = 1 << 63


def needs_no_format(settings: QuorumSettings, configs: BrokerConfigs, node_id: int) -> bool:
    """Whether a new directory of a node can only be the first of a cluster, so that a start may format
    it: the node is broker and controller, and no setting names another controller.
    """
    if settings.roles != {BROKER, CONTROLLER}:
        return False
    if settings.voters:
        return [node.id for node in settings.voters] == [node_id]
    return not settings.bootstrap or (
        len(settings.bootstrap) == 1 and _listens_at(configs, settings.bootstrap[0].port)
    )


def is_own_cluster(settings: QuorumSettings, configs: BrokerConfigs, node_id: int, home: Path) -> bool:
    """Whether this node is its cluster's only controller, and was not made for others to join: by formatting,
    or by voters in its log.

    Args:
        home: The directory that holds, or will hold, the metadata log.
    """
    if not needs_no_format(settings, configs, node_id):
        return False
    if not settings.voters and not settings.bootstrap:
        return True
    return not (home / META_PROPERTIES).exists() or not (is_for_cluster(home) or _has_voters_in_log(home))


def with_itself(settings: QuorumSettings, node_id: int) -> QuorumSettings:
    """Returns the settings of a cluster of its own: the node is the only voter, at its first address; without
    a listener of controllers at none.
    """
    if settings.voters:
        return settings
    found = settings.bootstrap[0] if settings.bootstrap else None
    voter = Node(node_id, "", 0) if found is None else Node(node_id, found.host, found.port)
    return settings._replace(voters=(voter,))


def load_log(log: MetadataRaftLog, applier: ImageApplier, node_id: int) -> None:
    """Applies all of the log, and syncs it: then it is committed, because no other node votes. So a start
    finds what it cannot use before it changes anything.

    Raises:
        DataDirectoryError: A record cannot be applied, or the log has other voters, by its records or by
            `quorum-state`.
        LogError, OSError: The disk fails.
    """
    applier.advance(log.end_offset, until_ns=_NEVER_NS)
    for voters, setting in (
        (applier.quorum.voter_ids(), "controller.quorum.bootstrap.servers"),
        (stored_voters(quorum_state_text(log.path)), "controller.quorum.voters"),
    ):
        if voters not in ([], [node_id]):
            raise DataDirectoryError(
                f"{log.path} belongs to a quorum of the controllers {', '.join(map(str, voters))}; only a "
                f"quorum of those can use it: set {setting}"
            )
    log.sync(log.end_offset, log.synced_end.cuts)


def as_in_log(local: Voter, quorum: QuorumFacts) -> Voter:
    """Returns the only voter as the log should have it.

    The log may have come from another directory of the node. Without a listener of controllers, nothing is
    known that would be better than the addresses in the log.
    """
    stored = None if quorum.voters is None else VoterSet.from_record(quorum.voters).get(local.key.id)
    return local if stored is None else Voter(stored.key, local.endpoints or stored.endpoints)


def _listens_at(configs: BrokerConfigs, port: int) -> bool:
    """Whether a listener of this node's controller has a port."""
    names = {name.upper() for name in configs.value("controller.listener.names")}
    texts = [*configs.value("listeners"), *(configs.value("advertised.listeners") or [])]
    listeners = [text.strip().partition("://") for text in texts]
    ports = {address.rpartition(":")[2] for name, _, address in listeners if name.upper() in names}
    return bool(ports & {str(port), "0"})


def _has_voters_in_log(home: Path) -> bool:
    return has_voters_in_log(quorum_state_text(home / METADATA_PARTITION_DIRECTORY))


def quorum_state_text(metadata: Path) -> str:
    """Returns the content of `quorum-state` in the directory of a metadata log; "" if it cannot be read."""
    try:
        return (metadata / QUORUM_STATE).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""  # the start says what is wrong
