"""What a replica must not forget: its epoch, the leader of it, and whom it voted for; the file
`quorum-state`.
"""

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from bowstring.engine.raft.keys import NO_DIRECTORY, NO_LEADER, ReplicaKey
from bowstring.protocol.ids import format_uuid, parse_uuid

_NOT_VOTED: Final = -1


class QuorumStateError(Exception):
    """The content of a quorum-state file that is not what Kafka writes; the message says what is wrong."""


class ElectionState(NamedTuple):
    """The part of a replica's state that must be durable before others learn of it."""

    epoch: int
    leader_id: int = NO_LEADER
    voted: ReplicaKey | None = None

    def to_json(self, kraft_version: int, voter_ids: Sequence[int]) -> str:
        """Returns the file's content: version 0 with configured voters (kraft.version 0), 1 with voters in
        the log.
        """
        state: dict[str, object]
        voted_id = _NOT_VOTED if self.voted is None else self.voted.id
        if kraft_version == 0:
            state = {
                "clusterId": "",
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted_id,
                "appliedOffset": 0,
                "currentVoters": [{"voterId": id} for id in voter_ids],
                "data_version": 0,
            }
        else:
            state = {
                "leaderId": self.leader_id,
                "leaderEpoch": self.epoch,
                "votedId": voted_id,
                "votedDirectoryId": format_uuid(
                    NO_DIRECTORY if self.voted is None else self.voted.directory_id
                ),
                "data_version": 1,
            }
        return json.dumps(state, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> "ElectionState":
        """Returns the state in a file's content.

        Raises:
            QuorumStateError: It is not what Kafka writes. A voter must not start then: it may have voted.
        """
        try:
            state = json.loads(text)
        except ValueError as error:
            raise QuorumStateError(f"it is not JSON: {error}") from error
        if not isinstance(state, dict) or state.get("data_version") not in (0, 1):
            raise QuorumStateError("data_version is missing or above 1")
        found = (state.get(name) for name in ("leaderEpoch", "leaderId", "votedId"))
        numbers = [each for each in found if isinstance(each, int)]
        if len(numbers) != 3:
            raise QuorumStateError("leaderEpoch, leaderId or votedId is missing")
        epoch, leader_id, voted_id = numbers
        try:
            directory_id = parse_uuid(state.get("votedDirectoryId", format_uuid(NO_DIRECTORY)))
        except (TypeError, ValueError) as error:
            raise QuorumStateError(f"votedDirectoryId: {error}") from error
        voted = None if voted_id == _NOT_VOTED else ReplicaKey(voted_id, directory_id)
        return cls(epoch, leader_id, voted)
