"""The set of voters: their ids, addresses and supported versions of kraft.version (KIP-853)."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from bowstring.engine.raft.keys import ReplicaKey
from bowstring.protocol.records import control


class Endpoint(NamedTuple):
    """Where a listener is reached."""

    name: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]


class Node(NamedTuple):
    """A destination of requests. Bootstrap servers, whose ids are not known, have ids below -1."""

    id: int
    host: str
    port: int


def node_at(id: int, endpoints: Endpoints, listener: str) -> Node | None:
    """Returns the destination at a listener; None when it has no such listener."""
    return next((Node(id, each.host, each.port) for each in endpoints if each.name == listener), None)


class VersionRange(NamedTuple):
    """The lowest and highest kraft.version that a voter supports."""

    lowest: int
    highest: int

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.lowest <= version <= self.highest


SUPPORTED_VERSIONS: Final = VersionRange(0, 1)
"""The versions of kraft.version that this implementation supports."""


class Voter(NamedTuple):
    """One voter."""

    key: ReplicaKey
    endpoints: Endpoints
    versions: VersionRange = SUPPORTED_VERSIONS


class VoterSet:
    """An immutable set of voters with different node ids."""

    __slots__ = ("_voters",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._voters = {voter.key.id: voter for voter in voters}

    def __len__(self) -> int:
        return len(self._voters)

    def __iter__(self) -> Iterator[Voter]:
        return iter(self._voters.values())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._voters == other._voters

    def __hash__(self) -> int:
        return hash(frozenset(self._voters.values()))

    def __repr__(self) -> str:
        return f"VoterSet({list(self._voters.values())})"

    @property
    def ids(self) -> list[int]:
        """The voters' node ids."""
        return list(self._voters)

    @property
    def keys(self) -> list[ReplicaKey]:
        """The voters' keys."""
        return [voter.key for voter in self._voters.values()]

    def get(self, id: int) -> Voter | None:
        """The voter with this node id."""
        return self._voters.get(id)

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica is a voter."""
        voter = self._voters.get(key.id)
        return voter is not None and key.is_meant_by(voter.key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether this replica is the only voter."""
        return len(self._voters) == 1 and self.is_voter(key)

    def endpoints(self, id: int) -> Endpoints:
        """The addresses of a voter; none if there is no such voter."""
        voter = self._voters.get(id)
        return () if voter is None else voter.endpoints

    def with_voter(self, voter: Voter) -> "VoterSet | None":
        """Returns the set with one voter more; None when the node id is taken."""
        if voter.key.id in self._voters:
            return None
        return VoterSet([*self, voter])

    def without_voter(self, key: ReplicaKey) -> "VoterSet | None":
        """Returns the set with one voter less; None when it is no voter, or the only one."""
        voter = self._voters.get(key.id)
        if voter is None or voter.key != key or len(self._voters) == 1:
            return None
        return VoterSet(each for each in self if each.key != key)

    def with_update(self, voter: Voter) -> "VoterSet | None":
        """Returns the set with other facts about a voter; None when it is no voter."""
        if not self.is_voter(voter.key):
            return None
        return VoterSet(voter if each.key.id == voter.key.id else each for each in self)

    def needs_update(self, voter: Voter) -> bool:
        """Whether the set has this voter with other facts."""
        return self.is_voter(voter.key) and self._voters[voter.key.id] != voter

    def overlaps(self, other: "VoterSet") -> bool:
        """Whether each majority of one set has a member in each majority of the other: at most one voter came
        and at most one went. A configured voter is the same in any directory.
        """
        return self._missing_in(other) <= 1 and other._missing_in(self) <= 1

    def _missing_in(self, other: "VoterSet") -> int:
        found = ((key, other.get(key.id)) for key in self.keys)
        return sum(
            there is None or not (key.is_meant_by(there.key) or there.key.is_meant_by(key))
            for key, there in found
        )

    def to_record(self) -> control.VotersRecord:
        """Returns the control record of this set."""
        return control.VotersRecord(
            version=0,
            voters=[
                control.VotersRecordVoter(
                    voter_id=voter.key.id,
                    voter_directory_id=voter.key.directory_id,
                    endpoints=[
                        control.Endpoint(name=each.name, host=each.host, port=each.port)
                        for each in voter.endpoints
                    ],
                    kraft_version_feature=control.KRaftVersionFeature(
                        min_supported_version=voter.versions.lowest,
                        max_supported_version=voter.versions.highest,
                    ),
                )
                for voter in self
            ],
        )

    @classmethod
    def from_record(cls, record: control.VotersRecord) -> "VoterSet":
        """Returns the set in a control record."""
        return cls(
            Voter(
                ReplicaKey(each.voter_id, each.voter_directory_id),
                tuple(Endpoint(point.name, point.host, point.port) for point in each.endpoints),
                VersionRange(
                    each.kraft_version_feature.min_supported_version,
                    each.kraft_version_feature.max_supported_version,
                ),
            )
            for each in record.voters
        )


def configured_voters(addresses: Iterable[Node], listener: str) -> VoterSet:
    """Returns the voters of controller.quorum.voters, whose directories are not known. One without a host has
    no endpoint.
    """
    return VoterSet(
        Voter(ReplicaKey(node.id), (Endpoint(listener, node.host, node.port),) if node.host else ())
        for node in addresses
    )
