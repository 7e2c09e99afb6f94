"""Appends records to the metadata log of a stopped node that is its only voter.

The node leads for a moment, as at a start: the log gets a new epoch with its leader change, `quorum-state`
says so, and a metadata transaction that never ended is aborted.
"""

import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.records import encode_record
from bowstring.engine.metadata.store.log_config import metadata_log_config
from bowstring.engine.metadata.store.reader import MetadataState
from bowstring.engine.quorum.log import MetadataRaftLog
from bowstring.engine.quorum.own_cluster import as_in_log
from bowstring.engine.quorum.state_file import QuorumStateFile
from bowstring.engine.raft import effects
from bowstring.engine.raft.accumulator import Entry
from bowstring.engine.raft.config import QuorumConfig
from bowstring.engine.raft.keys import ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.replica import RaftReplica
from bowstring.engine.raft.voters import Node, Voter, configured_voters
from bowstring.engine.storage.directory_lock import DataDirectoryError
from bowstring.engine.storage.log_directory import LogDirectory
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from bowstring.protocol.records.cluster_metadata.markers import AbortTransactionRecord
from bowstring.protocol.schema import MetadataRecord

_BATCH_BYTES: Final = 1024 * 1024


class OfflineChanges:
    """The only voter of a metadata log while its node is stopped. Close it before the directory.

    Attributes:
        log: The log.
    """

    def __init__(self, directory: LogDirectory, state: MetadataState) -> None:
        """Opens the log and begins an epoch.

        Args:
            directory: Of the metadata log; open.
            state: The content of the log.

        Raises:
            DataDirectoryError: The node is not its only voter, or the log cannot be used.
            LogError, OSError: The disk fails.
        """
        self._level = state.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        self._committed = 0
        self.log = MetadataRaftLog(directory, metadata_log_config(BrokerConfigs({})), is_only_copy=True)
        try:
            self._state_file = QuorumStateFile(self.log.path, is_only_voter=True)
            stored = self._state_file.read()
            key = ReplicaKey(directory.node_id, directory.directory_id)
            local = as_in_log(Voter(key, ()), state.quorum)
            self._replica = RaftReplica(
                *(local, self.log, QuorumConfig(append_linger_ms=0), random.randrange),
                configured=configured_voters((Node(key.id, "", 0),), ""),
                bootstrap=(),
                cluster_id=directory.cluster_id,
                listener="",
            )
            self._carry_out(self._replica.start(stored, _now_ms()))
            if not isinstance(self._replica.state, LeaderState):
                raise DataDirectoryError(
                    f"{self.log.path} has the voters {self._replica.voters}; only a log whose one voter is "
                    f"node {directory.node_id} can be changed"
                )
            if state.image.in_transaction:
                # None of its records count (KIP-868).
                why = "the controller stopped before the transaction ended"
                self.append([AbortTransactionRecord(reason=why)])
        except BaseException:
            self.log.leave()
            raise

    def append(self, records: Sequence[MetadataRecord]) -> None:
        """Appends records, in one batch if they fit; they are committed and synced on return.

        Raises:
            LogError, OSError: The disk fails.
        """
        for entries in _batches([(None, encode_record(each, self._level)) for each in records]):
            last_offset, out = self._replica.append(self._replica.state.epoch, entries, _now_ms())
            self._carry_out(out)
            if self._committed <= last_offset:
                raise OSError(f"{self.log.path} takes no records now; free memory and file descriptors")

    def close(self) -> None:
        """Syncs and closes the log."""
        self.log.close()

    def _carry_out(self, out: list[effects.Effect]) -> None:
        waiting = deque(out)
        while waiting:
            effect = waiting.popleft()
            if isinstance(effect, effects.PersistElection):
                self._state_file.write(effect.state.to_json(effect.kraft_version, effect.voter_ids))
                waiting += self._replica.election_persisted(_now_ms())
            elif isinstance(effect, effects.FlushLog):
                self.log.sync(self.log.end_offset, self.log.synced_end.cuts)
                waiting += self._replica.log_flushed(effect.flush_id, _now_ms())
            elif isinstance(effect, effects.HighWatermarkAdvanced):
                self._committed = effect.offset
                self.log.advance_high_watermark(effect.offset)


def _batches(entries: list[Entry]) -> Iterator[list[Entry]]:
    some: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        if some and size_bytes + len(entry[1]) > _BATCH_BYTES:
            yield some
            some, size_bytes = [], 0
        some.append(entry)
        size_bytes += len(entry[1])
    if some:
        yield some


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
