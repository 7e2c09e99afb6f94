"""Keeps what control records of the metadata log say: kraft.version and the voters (KIP-853).

The file `quorum-state` beside the log has two formats, which belong to kraft.version 0 (voters are
configured) and 1 (voters are in the log).
"""

import json
from typing import Final

from bowstring._native.protocol.message_codec import decode, encode
from bowstring.protocol.records.control import KRaftVersionRecord, VotersRecord
from bowstring.protocol.records.control_batch import ControlRecordType, encode_control_key
from bowstring.protocol.schema import Message

QUORUM_STATE: Final = "quorum-state"


def control_record(kind: ControlRecordType, value: Message) -> tuple[bytes, bytes]:
    """Returns key and value of a control record of the metadata log."""
    return encode_control_key(kind), encode(value, 0)


class QuorumFacts:
    """kraft.version and the voters, as set by control records.

    Attributes:
        kraft_version: 0 when voters are configured, 1 when they are in the log.
        voters: The latest voters in the log; None when there are none.
    """

    def __init__(self) -> None:
        self.kraft_version = 0
        self.voters: VotersRecord | None = None

    def copy(self) -> "QuorumFacts":
        """Returns the same facts, which later records do not change."""
        new = QuorumFacts()
        new.kraft_version, new.voters = self.kraft_version, self.voters
        return new

    def apply(self, kind: ControlRecordType | None, value: bytes) -> None:
        """Applies a control record; kinds that do not concern voters have no effect.

        Raises:
            ProtocolError: Malformed bytes.
        """
        if kind is ControlRecordType.KRAFT_VERSION:
            self.kraft_version = decode(KRaftVersionRecord, 0, value).kraft_version
        elif kind is ControlRecordType.KRAFT_VOTERS:
            self.voters = decode(VotersRecord, 0, value)

    def records(self) -> list[tuple[bytes, bytes]]:
        """Returns the control records that lead to these facts."""
        if self.kraft_version == 0 or self.voters is None:
            return []
        version = KRaftVersionRecord(version=0, kraft_version=self.kraft_version)
        return [
            control_record(ControlRecordType.KRAFT_VERSION, version),
            control_record(ControlRecordType.KRAFT_VOTERS, self.voters),
        ]

    def voter_ids(self) -> list[int]:
        """Ids of the voters, if the log has them."""
        return [] if self.voters is None else [voter.voter_id for voter in self.voters.voters]


def has_voters_in_log(text: str) -> bool:
    """Whether the voters are in the log, by a node's `quorum-state`; False if that cannot be read."""
    try:
        state = json.loads(text)
    except ValueError:
        return False
    return isinstance(state, dict) and state.get("data_version") == 1


def stored_voters(text: str) -> list[int]:
    """Returns the ids of the configured voters that a node has stored in `quorum-state`, in order; none when
    they are in the log, or the text cannot be read.
    """
    try:
        state = json.loads(text)
        return sorted(int(each["voterId"]) for each in state.get("currentVoters") or ())
    except (ValueError, TypeError, KeyError, AttributeError):
        return []
