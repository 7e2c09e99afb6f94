"""Prints a run: the seed, its description, and the steps before its end, one per line."""

import dataclasses

from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.messages import LeaderAndEpoch
from bowstring.engine.raft.states import EpochElection
from bowstring.protocol.errors import Error
from tests.simulation.quorum.disk import Batch

UNINTERESTING = {
    "cluster_id",
    "max_bytes",
    "max_wait_ms",
    "leader_endpoints",
    "endpoints",
    "election_deadline_ms",
}
UNINTERESTING |= {"fetch_deadline_ms", "update_voter_at_ms", "log_start_offset", "local"}


def brief(what):
    """Describes an object in a few words."""
    if isinstance(what, ReplicaKey):
        return f"{what.id}/{what.directory_id[2]}"
    if isinstance(what, OffsetAndEpoch):
        return f"{what.offset}@{what.epoch}"
    if isinstance(what, LeaderAndEpoch):
        return f"leader {what.leader_id} of {what.epoch}"
    if isinstance(what, Batch):
        return f"batch {what.base}-{what.end}@{what.epoch}"
    if isinstance(what, LeaderState):
        return f"leader of {what.epoch} from {what.epoch_start_offset}"
    if isinstance(what, EpochElection):
        return f"votes of {what.granting}"
    if isinstance(what, Error):
        return what.name
    if isinstance(what, bytes):
        return f"{len(what)} bytes" if len(what) > 16 else repr(what)
    if isinstance(what, tuple | list) and not hasattr(what, "_fields"):
        return f"({', '.join(brief(each) for each in what)})"
    names = getattr(what, "_fields", getattr(what, "__slots__", ()))
    if dataclasses.is_dataclass(what) and type(what).__name__ != "Action":
        names = [field.name for field in dataclasses.fields(what)]
    if names:
        parts = [
            f"{name}={brief(value)}"
            for name in names
            if name not in UNINTERESTING and (value := getattr(what, name)) not in (None, b"", ())
        ]
        return f"{type(what).__name__} {' '.join(parts)}"
    return str(what)


def lines(world, last=60):
    """The last steps of a run."""
    out = []
    for time, node, words, what in world.story[-last:]:
        who = "" if node is None else f"node {node} "
        out.append(f"{time:10.1f}  {who}{words} {brief(what)}")
    return out
