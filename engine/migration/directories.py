"""Prepares a stopped broker's directories for Apache Kafka, or Kafka's for Bowstring. Data files are kept.

Both brokers read the same files. Migration removes configs that only one of them supports, fences a broker
that is still registered as alive, writes a configuration file, and reports what the other broker does
differently.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from bowstring.engine.broker.broker import Broker
from bowstring.engine.configs.broker_configs import why_unenforced
from bowstring.engine.configs.config_key import NOT_KAFKAS
from bowstring.engine.configs.files import parse_properties
from bowstring.engine.metadata.image import BROKER_RESOURCE
from bowstring.engine.metadata.quorum import stored_voters
from bowstring.engine.metadata.store.reader import MetadataState, read_metadata
from bowstring.engine.migration.settings import open_listeners, refusal, server_properties, unenforced
from bowstring.engine.quorum.offline_changes import OfflineChanges
from bowstring.engine.quorum.own_cluster import quorum_state_text
from bowstring.engine.quorum.synced_end import FILE_NAME as SYNCED_END
from bowstring.engine.storage.directory_lock import DataDirectoryError, locked
from bowstring.engine.storage.log_directory import (
    CLEAN_SHUTDOWN,
    META_PROPERTIES,
    METADATA_PARTITION_DIRECTORY,
    LogDirectory,
)
from bowstring.protocol.features import (
    BOWSTRING_VERSION,
    GROUP_VERSION,
    HIGHEST_METADATA_VERSION,
    METADATA_VERSION,
)
from bowstring.protocol.records.cluster_metadata.nodes import BrokerRegistrationChangeRecord
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.schema import MetadataRecord

Target = Literal["kafka", "bowstring"]
_YES: Final = 1


@dataclass
class Migration:
    """What a migration found and did, or would do.

    Attributes:
        clean: Whether the last broker shut down cleanly.
        changes: Changes made, or to be made, one line each.
        warnings: What the other broker does differently.
        backup: Copy of the metadata log from before the change; None when it was not changed.
        properties: The server.properties to start with.
        command: The command that starts the other broker.
        refused: Why Bowstring would not start with `properties` as it is; None when it would.
    """

    directories: list[str]
    to: Target
    cluster_id: str = ""
    node_id: int = -1
    clean: bool = False
    metadata_version: int = 0
    topics: int = 0
    partitions: int = 0
    changes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    backup: str | None = None
    properties: str = ""
    command: str = ""
    refused: str | None = None


def written_by(state: MetadataState, node_id: int) -> Target | None:
    """Returns which kind of broker registered the node last; None when there is no registration."""
    broker = state.image.brokers.get(node_id)
    if broker is None:
        return None
    features = {name for name, _, _ in broker.features}
    # Versions of Bowstring without the mark did not register group.version either.
    return "kafka" if GROUP_VERSION in features and BOWSTRING_VERSION not in features else "bowstring"


def migrate(
    directories: Sequence[Path],
    to: Target | None,
    *,
    settings: Mapping[str, str],
    properties: Path | None = None,
    backup: Path | None = None,
    controller_port: int = 9093,
    accept_unclean: bool = False,
    dry_run: bool = False,
) -> Migration:
    """Prepares the directories of one stopped broker for the other kind of broker.

    Args:
        directories: All log directories of the broker.
        to: The broker that takes over; None: the one that did not run last.
        settings: The broker's present settings; those that the other broker supports are kept.
        properties: Where to write server.properties; None: into the directory of the metadata log.
        backup: Where to copy the metadata log before it is changed; None: beside its directory.
        accept_unclean: Recover a directory that was not shut down cleanly instead of refusing it.
        dry_run: Report what would be done without doing it.

    Raises:
        DataDirectoryError: The directories are in use, not cleanly shut down, or not of one broker; the
            message says what to do.
        OSError: A file cannot be read or written.
    """
    paths = [Path(os.path.abspath(each)) for each in directories]
    with ExitStack() as locks:
        for path in paths:
            if not path.is_dir():
                raise DataDirectoryError(f"{path} is not a directory; name the log directory of a broker")
            locks.enter_context(locked(path, "stop it first"))
        cluster_id, node_id = _identity(paths)
        home = _metadata_home(paths)
        state = read_metadata(home / METADATA_PARTITION_DIRECTORY)
        to = to or ("kafka" if written_by(state, node_id) != "kafka" else "bowstring")
        done = Migration([str(path) for path in paths], to, cluster_id, node_id)
        _describe(done, state, paths)
        _check(done, state, home, accept_unclean)
    if not done.clean:
        done.changes.append("recovered every log, as a start of Bowstring does")
    if not dry_run:
        _make_usable(done, state, home)
    changes = _for_kafka(done, state) if to == "kafka" else _for_bowstring(done, state)
    _change_metadata(done, list(changes), state, backup or _beside(home), dry_run=dry_run)
    if not dry_run and to == "kafka":
        _forget_synced_end(home)
    path = properties or home / "server.properties"
    text = server_properties(
        to,
        settings,
        node_id=node_id,
        directories=done.directories,
        broker=state.image.brokers.get(node_id),
        voters_in_log=state.quorum.kraft_version > 0,
        controller_port=controller_port,
    )
    _write_properties(done, path, text, settings, dry_run)
    return done


# ---------------------------------------------------------------- present state


def _identity(paths: Sequence[Path]) -> tuple[str, int]:
    found: dict[tuple[str, int], Path] = {}
    for path in paths:
        file = path / META_PROPERTIES
        try:
            facts = {name: value for name, value, _ in parse_properties(file.read_text(encoding="utf-8"))}
            found[facts["cluster.id"], int(facts["node.id"])] = path
        except FileNotFoundError:
            raise DataDirectoryError(
                f"{file} is missing: {path} is not a log directory of a broker"
            ) from None
        except (KeyError, ValueError) as error:
            raise DataDirectoryError(f"{file} is damaged ({error}); restore it") from error
    if len(found) != 1:
        raise DataDirectoryError(
            f"{' and '.join(map(str, found.values()))} belong to different brokers; name the directories of "
            "one"
        )
    return next(iter(found))


def _metadata_home(paths: Sequence[Path]) -> Path:
    for path in paths:
        if (path / METADATA_PARTITION_DIRECTORY).is_dir():
            return path
    raise DataDirectoryError(
        f"no {METADATA_PARTITION_DIRECTORY} in {', '.join(map(str, paths))}; name every log directory of "
        "the broker, including the one with the metadata log (metadata.log.dir)"
    )


def _describe(done: Migration, state: MetadataState, paths: Sequence[Path]) -> None:
    image = state.image
    done.clean = all((path / CLEAN_SHUTDOWN).exists() for path in paths) and state.torn_bytes == 0
    done.metadata_version = image.features.get(METADATA_VERSION, 0)
    done.topics, done.partitions = len(image.topics), image.partition_count
    if done.to == "bowstring" and (rules := len(image.acls)):
        done.warnings.append(f"{rules} access control entries have an effect only with authorizer.class.name")


def _check(done: Migration, state: MetadataState, home: Path, accept_unclean: bool) -> None:
    if not done.clean and not accept_unclean:
        raise DataDirectoryError(
            f"{home} was not shut down cleanly ({CLEAN_SHUTDOWN} is missing or the metadata log is torn); "
            "start and stop its broker, or recover it here with --unclean"
        )
    if done.metadata_version > HIGHEST_METADATA_VERSION:
        raise DataDirectoryError(
            f"{home} is at metadata.version {done.metadata_version}; this version supports at most "
            f"{HIGHEST_METADATA_VERSION} (Kafka 4.4)"
        )
    stored = stored_voters(quorum_state_text(home / METADATA_PARTITION_DIRECTORY))
    if (voters := state.quorum.voter_ids() or stored) not in ([], [done.node_id]):
        raise DataDirectoryError(
            f"{home} belongs to a quorum of the controllers {voters}; only a node that is its own "
            "controller can be migrated"
        )
    for topic in state.image.topics.values():
        for index, partition in enumerate(topic.partitions):
            if set(partition.replicas) != {done.node_id}:
                raise DataDirectoryError(
                    f"{topic.name}-{index} has replicas on {list(partition.replicas)}; move everything to "
                    f"node {done.node_id} first (kafka-reassign-partitions)"
                )


# ---------------------------------------------------------------- changes


def _make_usable(done: Migration, state: MetadataState, home: Path) -> None:
    if written_by(state, done.node_id) == "kafka":
        _forget_synced_end(home)
    if not done.clean:
        settings = {
            "log.dirs": ",".join(done.directories),
            "metadata.log.dir": str(home),
            "node.id": str(done.node_id),
        }
        Broker(settings).recover()


def _forget_synced_end(home: Path) -> None:
    """Removes the file that says how far the metadata log is synced. Kafka does not raise that, so it would
    be too low afterwards, and damage of records that Kafka has synced would look like what a crash leaves.
    """
    (home / METADATA_PARTITION_DIRECTORY / SYNCED_END).unlink(missing_ok=True)


def _beside(home: Path) -> Path:
    return home.with_name(f"{home.name}.metadata-{time.strftime('%Y%m%d-%H%M%S')}")


def _change_metadata(
    done: Migration,
    records: list[MetadataRecord],
    state: MetadataState,
    backup: Path,
    *,
    dry_run: bool,
) -> None:
    if not records:
        return
    done.backup = str(backup)
    if dry_run:
        return
    home = _metadata_home([Path(each) for each in done.directories])
    shutil.copytree(home / METADATA_PARTITION_DIRECTORY, backup)
    directory = LogDirectory(home)
    directory.open(done.node_id)
    try:
        leader = OfflineChanges(directory, state)
        leader.append(records)
        leader.close()
        broker = state.image.brokers.get(done.node_id)
        directory.mark_clean(broker.epoch if broker is not None else -1)
    finally:
        directory.close()


def _for_kafka(done: Migration, state: MetadataState) -> Iterator[MetadataRecord]:
    """Returns the records that remove what Kafka does not support and fence the registered broker."""
    for (kind, resource), configs in state.image.configs.items():
        for name in configs:
            if name.startswith(NOT_KAFKAS):
                done.changes.append(
                    f"removed {name} of {resource or 'all brokers'}, which Kafka does not support"
                )
                yield ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=None)
    broker = state.image.brokers.get(done.node_id)
    if broker is not None and not broker.fenced:
        done.changes.append(
            f"fenced broker {done.node_id}, so that Kafka does not wait for its session to end"
        )
        yield BrokerRegistrationChangeRecord(
            broker_id=done.node_id, broker_epoch=broker.epoch, fenced=_YES, in_controlled_shutdown=_YES
        )


def _for_bowstring(done: Migration, state: MetadataState) -> Iterator[MetadataRecord]:
    """Returns the records that remove dynamic configs with which Bowstring would not start."""
    for resource in (str(done.node_id), ""):
        configs = state.image.resource_configs(BROKER_RESOURCE, resource)
        for name, value in configs.items():
            if why_unenforced(name, value) is None:
                continue
            done.changes.append(
                f"removed {name} of {f'broker {resource}' if resource else 'all brokers'}, which Bowstring "
                "does not enforce"
            )
            yield ConfigRecord(resource_type=BROKER_RESOURCE, resource_name=resource, name=name, value=None)


def _write_properties(
    done: Migration, path: Path, text: str, settings: Mapping[str, str], dry_run: bool
) -> None:
    done.properties = str(path)
    done.command = f"bin/kafka-server-start.sh {path}"
    if done.to == "bowstring":
        done.command = f"bowstring serve --config {path}"
        done.refused = refusal(text)
        reasons = unenforced(settings).values()
        done.warnings += [f"{reason}; it is a comment in {path.name} now" for reason in reasons]
        if reached := open_listeners(text):
            done.command += " --listen-unauthenticated"
            done.warnings.append(
                f"{', '.join(reached)}: every machine that can reach this one may read, write and delete "
                "everything, because clients do not authenticate there"
            )
    if path.exists():
        kept = path.with_name(f"{path.name}.{time.strftime('%Y%m%d-%H%M%S')}")
        done.changes.append(f"kept the existing {path.name} as {kept}")
        if not dry_run:
            path.rename(kept)
    done.changes.append(f"wrote {path}")
    if not dry_run:
        path.write_text(text, encoding="utf-8")
