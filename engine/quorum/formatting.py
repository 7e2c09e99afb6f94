"""Formats a node's directories for a cluster: its identity, the first features, and the first voters.

Everything is checked before anything is written. `meta.properties` is written last, because a directory that
has it is formatted.
"""

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.files import parse_properties
from bowstring.engine.metadata.features import ELR_SINCE, default_levels
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import SnapshotId, encode_snapshot
from bowstring.engine.metadata.store.bootstrap import BOOTSTRAP_CHECKPOINT
from bowstring.engine.metadata.store.snapshots import MetadataSnapshots
from bowstring.engine.quorum.settings import CONTROLLER, QuorumSettings
from bowstring.engine.raft.keys import ReplicaKey
from bowstring.engine.raft.voters import Endpoint, Endpoints, Voter, VoterSet
from bowstring.engine.storage.checkpoints import replace_file, sync_directory, write_whole
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import (
    META_PROPERTIES,
    METADATA_PARTITION_DIRECTORY,
    OWNER_ONLY,
)
from bowstring.protocol.features import (
    ELIGIBLE_LEADER_REPLICAS,
    HIGHEST_METADATA_VERSION,
    KRAFT_VERSION,
    METADATA_VERSION,
    SUPPORTED_FEATURES,
)
from bowstring.protocol.ids import ZERO_UUID, format_uuid, parse_uuid, random_uuid
from bowstring.protocol.whole_numbers import whole_number

if TYPE_CHECKING:
    from bowstring.protocol.records.cluster_metadata.security import UserScramCredentialRecord

_FIRST: Final = SnapshotId(0, 0)
_CLUSTER_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class FormatOptions:
    """What the operator requests, as for Kafka's storage tool.

    Attributes:
        cluster_id: The same on each node of the cluster.
        standalone: This node is the only voter at first.
        initial_controllers: The voters at first, as ``id@host:port:directory-id``, the same on each of them.
        no_initial_controllers: The node joins a cluster that has voters.
        features: Levels other than the default.
        ignore_formatted: Formatted directories stay as they are.
        add_scram: Users of the first metadata, as ``SCRAM-SHA-512=[name=alice,password=…]``; has secrets.
    """

    cluster_id: str
    standalone: bool = False
    initial_controllers: Sequence[str] = ()
    no_initial_controllers: bool = False
    features: Mapping[str, int] = field(default_factory=dict)
    ignore_formatted: bool = False
    add_scram: Sequence[str] = field(default=(), repr=False)


@dataclass(frozen=True)
class FormatPlan:
    """Checked work.

    Attributes:
        new: The directories to format.
        present: Those that are formatted for this node and cluster.
    """

    cluster_id: str
    node_id: int
    new: tuple[Path, ...]
    present: tuple[Path, ...]
    metadata: Path
    features: Mapping[str, int]
    voters: VoterSet | None
    metadata_directory_id: bytes
    users: Sequence["UserScramCredentialRecord"] = field(default=(), repr=False)


def plan_format(
    configs: BrokerConfigs,
    settings: QuorumSettings,
    node_id: int,
    endpoints: Endpoints,
    options: FormatOptions,
) -> FormatPlan:
    """Checks everything; writes nothing.

    Args:
        endpoints: Where this node's controller is reached, as advertised.

    Raises:
        ConfigError, DataDirectoryError: The message says what is wrong and what to do.
    """
    if not _CLUSTER_ID.fullmatch(options.cluster_id):
        raise ConfigError(
            f"--cluster-id '{options.cluster_id}' is not a cluster id; use letters, digits, - and _, such as "
            "the output of: bowstring format --random-uuid"
        )
    own_id = random_uuid()
    voters = _first_voters(settings, node_id, endpoints, options, own_id)
    if voters is not None and (own := voters.get(node_id)) is not None:
        own_id = own.key.directory_id
    features = _features(options.features, dynamic=voters is not None)
    paths = [Path(each).absolute() for each in configs.value("log.dirs") or configs.value("log.dir")]
    metadata = Path(configs.value("metadata.log.dir") or paths[0]).absolute()
    new: list[Path] = []
    present: list[Path] = []
    for path in dict.fromkeys([metadata, *paths]):
        (present if _is_formatted(path, node_id, options.cluster_id) else new).append(path)
    if present and not options.ignore_formatted:
        raise DataDirectoryError(
            f"{present[0]} is already formatted for cluster {options.cluster_id}; to format only the other "
            "directories, use --ignore-formatted"
        )
    return FormatPlan(
        *(options.cluster_id, node_id, tuple(new), tuple(present), metadata, features, voters, own_id),
        users=_users(options.add_scram),
    )


def _users(texts: Sequence[str]) -> list["UserScramCredentialRecord"]:
    if not texts:
        return []
    from bowstring.engine.quorum.first_users import first_user  # which few formats need

    return [first_user(each) for each in texts]


def carry_out(plan: FormatPlan) -> None:
    """Formats the directories of a plan.

    Raises:
        OSError: A directory cannot be written.
    """
    for path in plan.new:
        path.mkdir(mode=OWNER_ONLY, parents=True, exist_ok=True)
        directory_id = random_uuid()
        if path == plan.metadata:
            directory_id = plan.metadata_directory_id
            _write_first_metadata(plan)
        replace_file(
            path / META_PROPERTIES,
            f"#\n#{time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime())}\n"
            f"cluster.id={plan.cluster_id}\ndirectory.id={format_uuid(directory_id)}\n"
            f"node.id={plan.node_id}\nversion=1\n",
        )
        sync_directory(path.parent)


def _write_first_metadata(plan: FormatPlan) -> None:
    now_ms = time.time_ns() // 1_000_000
    image = ClusterImage()
    image.features = {name: level for name, level in plan.features.items() if level and name != KRAFT_VERSION}
    for user in plan.users:
        image.scram.add(user)
    batches = encode_snapshot(image, QuorumFacts(), _FIRST, now_ms, now_ms)
    write_whole(plan.metadata / BOOTSTRAP_CHECKPOINT, batches, ".tmp")
    if plan.voters is not None:
        partition = plan.metadata / METADATA_PARTITION_DIRECTORY
        partition.mkdir(mode=OWNER_ONLY, exist_ok=True)
        facts = QuorumFacts()
        facts.kraft_version, facts.voters = plan.features[KRAFT_VERSION], plan.voters.to_record()
        batches = encode_snapshot(ClusterImage(), facts, _FIRST, now_ms, now_ms)
        MetadataSnapshots(partition).write(_FIRST, batches)


# ---------------------------------------------------------------- checks


def _first_voters(
    settings: QuorumSettings, node_id: int, endpoints: Endpoints, options: FormatOptions, own_id: bytes
) -> VoterSet | None:
    asked = {
        "--standalone": options.standalone,
        "--initial-controllers": bool(options.initial_controllers),
        "--no-initial-controllers": options.no_initial_controllers,
    }
    given = [name for name, is_given in asked.items() if is_given]
    if len(given) > 1:
        raise ConfigError(f"{given[0]} and {given[1]} exclude each other; give one of them")
    is_controller = CONTROLLER in settings.roles
    if settings.voters:
        if given and given != ["--no-initial-controllers"]:
            listed = ",".join(str(node.id) for node in settings.voters)
            raise ConfigError(
                f"{given[0]} puts voters into the log, but controller.quorum.voters names nodes {listed}; "
                "leave the option out, or remove the setting and set controller.quorum.bootstrap.servers"
            )
        return None
    if not given and is_controller:
        raise ConfigError(
            "controller.quorum.voters is not set on this controller; give --standalone, "
            "--initial-controllers or --no-initial-controllers"
        )
    if options.standalone:
        if not is_controller:
            raise ConfigError(
                f"--standalone makes node {node_id} a voter, but its process.roles is broker; format it "
                "without the option"
            )
        return VoterSet([Voter(ReplicaKey(node_id, own_id), endpoints)])
    if options.initial_controllers:
        return _parsed_voters(options.initial_controllers, settings, node_id)
    return None


def _parsed_voters(texts: Sequence[str], settings: QuorumSettings, node_id: int) -> VoterSet:
    voters: dict[int, Voter] = {}
    for text in texts:
        voter = _initial_controller(text, settings.listener)
        if voter.key.id in voters:
            raise ConfigError(
                f"--initial-controllers names node {voter.key.id} twice; give each controller its own id"
            )
        if any(voter.key.directory_id == each.key.directory_id for each in voters.values()):
            raise ConfigError(
                f"--initial-controllers gives the directory id of '{text}' to two nodes; each needs its own"
            )
        voters[voter.key.id] = voter
    if CONTROLLER in settings.roles and node_id not in voters:
        listed = ", ".join(map(str, voters))
        raise ConfigError(
            f"node.id={node_id} is not among --initial-controllers (nodes {listed}); add it, or format this "
            "node with --no-initial-controllers"
        )
    return VoterSet(voters.values())


def _initial_controller(text: str, listener: str) -> Voter:
    form = "write id@host:port:directory-id, such as 1@node1:9093:JEXY6aqzQY-32P5TStzaFg"
    id, at, rest = text.strip().partition("@")
    address, colon, directory = rest.rpartition(":")
    host, second_colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    node_id, number = whole_number(id), whole_number(port, 65535)
    if not (at and colon and second_colon and host) or node_id is None or not number:
        raise ConfigError(f"--initial-controllers: '{text}' is not a controller; {form}")
    try:
        directory_id = parse_uuid(directory)
    except ValueError:
        raise ConfigError(
            f"--initial-controllers: '{directory}' in '{text}' is not a directory id; {form}"
        ) from None
    if directory_id == ZERO_UUID:
        raise ConfigError(f"--initial-controllers: the directory id of '{text}' is zero; {form}")
    return Voter(ReplicaKey(node_id, directory_id), (Endpoint(listener, host, number),))


def _features(asked: Mapping[str, int], *, dynamic: bool) -> dict[str, int]:
    version = asked.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
    features = {METADATA_VERSION: version, **default_levels(version), KRAFT_VERSION: int(dynamic)}
    for name, level in asked.items():
        supported = SUPPORTED_FEATURES.get(name)
        if supported is None:
            known = ", ".join(SUPPORTED_FEATURES)
            raise ConfigError(f"--feature {name}={level}: this version supports only {known}")
        if not supported[0] <= level <= supported[1]:
            raise ConfigError(
                f"--feature {name}={level}: this version supports {supported[0]} to {supported[1]}"
            )
        if name == KRAFT_VERSION and level != int(dynamic):
            instead = (
                "with voters in the log it must be 1: leave the feature out"
                if dynamic
                else "1 needs --standalone or --initial-controllers"
            )
            raise ConfigError(f"--feature {name}={level}: {instead}")
        features[name] = level
    if features[ELIGIBLE_LEADER_REPLICAS] and version < ELR_SINCE:
        raise ConfigError(
            f"--feature {ELIGIBLE_LEADER_REPLICAS}=1 needs {METADATA_VERSION}={ELR_SINCE} or higher, but "
            f"that is {version}"
        )
    return features


def _is_formatted(path: Path, node_id: int, cluster_id: str) -> bool:
    properties = path / META_PROPERTIES
    try:
        facts = {name: value for name, value, _ in parse_properties(properties.read_text(encoding="utf-8"))}
    except FileNotFoundError:
        if path.is_dir() and any((each / "partition.metadata").exists() for each in path.iterdir()):
            raise DataDirectoryError(
                f"{path} holds partitions, but no {META_PROPERTIES}; restore the file, or name an empty "
                "directory"
            ) from None
        return False
    found_cluster, found_node = facts.get("cluster.id", ""), facts.get("node.id", "")
    if found_cluster != cluster_id:
        raise DataDirectoryError(
            f"{properties} belongs to cluster {found_cluster}, not to {cluster_id}; give --cluster-id "
            f"{found_cluster}, or name another directory"
        )
    if found_node != str(node_id):
        raise DataDirectoryError(
            f"{properties} belongs to node {found_node}, but node.id is {node_id}; set node.id={found_node}, "
            "or name another directory"
        )
    return True
