"""Types of DataPlane; see data_plane.pyx."""

from typing import TypedDict, type_check_only

from bowstring._native.access.acl_table import AclTable
from bowstring._native.log.partition_log import PartitionLog
from bowstring._native.protocol.message_steps import Encoding
from bowstring._native.server.control_request import ControlRequest, SlowBatch
from bowstring._native.tls.context import TlsContext
from bowstring._native.wal.write_ahead_log import WriteAheadLog

_Rule = tuple[int, int, bytes, bytes, bytes, int, int]

@type_check_only
class ApiCounters(TypedDict):
    requests: int
    errors: int
    total_us: int
    latency_buckets: list[int]

@type_check_only
class StorageCounters(TypedDict):
    # ranges that storage threads read for fetches, their bytes, and failures
    reads: int
    read_bytes: int
    failed_reads: int
    corrupt_ranges: int

@type_check_only
class TlsCounters(TypedDict):
    # handshakes that succeeded, those of them with a ticket, and those that did not
    handshakes: int
    resumed: int
    failures: int

@type_check_only
class SlowBatchCounters(TypedDict):
    # bytes of batches that the control thread processes, and connections that wait for memory
    waiting_bytes: int
    working_bytes: int
    parked_connections: int

@type_check_only
class DeferredCounters(TypedDict):
    # batches that later passes have appended so far, or will, and bytes of those that wait
    batches: int
    waiting_bytes: int

@type_check_only
class Counters(TypedDict):
    connections: int
    accepted: int
    received_bytes: int
    sent_bytes: int
    fetch_sessions: int
    # memory that they take
    fetch_session_bytes: int
    timers: int
    # appended as a follower
    followed_bytes: int
    storage: StorageCounters
    tls: TlsCounters
    slow_batches: SlowBatchCounters
    deferred_batches: DeferredCounters
    produce: ApiCounters
    fetch: ApiCounters
    # without those that the control thread answers, like heartbeats
    list_offsets: ApiCounters
    heartbeat: ApiCounters
    consumer_group_heartbeat: ApiCounters

class DataPlane:
    control_fd: int
    def __init__(
        self,
        *,
        apis: dict[int, tuple[int, int, int]],
        is_controller: bool = False,
        reactors: int = 1,
        request_max_bytes: int = 104857600,
        fetch_max_bytes: int = 57671680,
        session_slots: int = 1000,
        session_min_idle_ms: int = 120000,
        connections_max_idle_ms: int = 600000,
        slow_max_bytes: int = 67108864,
        session_bytes: int = 67108864,
        quota_samples: int = 11,
        quota_window_ms: int = 1000,
        sasl_max_bytes: int = 524288,
        authentication_max_ms: int = 30000,
    ) -> None: ...
    def listen(
        self, host: str, port: int, *, tls: TlsContext | None = None, authenticates: bool = False
    ) -> int: ...
    def set_tls(self, listener: int, tls: TlsContext) -> None: ...
    def start(self, *, accepts: bool = True) -> None: ...
    def accept(self) -> None: ...
    def stop(self) -> None: ...
    def take_requests(self) -> list[ControlRequest | SlowBatch]: ...
    def take_ended(self) -> list[int]: ...
    def reply(
        self, connection_id: int, slot: int, payload: bytes | Encoding | None, *, throttle_ms: int = 0
    ) -> None: ...
    def hold_replies(self) -> None: ...
    def release_replies(self) -> None: ...
    def skip(self, connection_id: int, slot: int) -> None: ...
    def disconnect(self, connection_id: int) -> None: ...
    def finish(self, connection_id: int) -> None: ...
    def admit(self, connection_id: int, principal: str, *, lifetime_ms: int = 0) -> None: ...
    def begin_batch(self, slow: SlowBatch, working_bytes: int, *, anyway: bool = False) -> bool: ...
    def finish_batch(
        self, slow: SlowBatch, batch: bytes | None = None, error: int = 0, reason: str | None = None
    ) -> None: ...
    def take_events(self) -> list[tuple[str, str, str]]: ...
    def add_partition(
        self,
        topic: str,
        topic_id: bytes,
        partition: int,
        log: PartitionLog | None,
        *,
        leader_epoch: int = 0,
        min_insync_replicas: int = 1,
        in_sync_replicas: int = 1,
        is_leader: bool = True,
        replicated: bool = False,
    ) -> None: ...
    def add_partitions(
        self,
        topic: str,
        topic_id: bytes,
        partitions: list[tuple[int, PartitionLog | None, int, int, int, bool]],
        *,
        replicated: bool = False,
    ) -> None: ...
    def update_partition(
        self,
        topic: str,
        partition: int,
        *,
        leader_epoch: int | None = None,
        min_insync_replicas: int | None = None,
        in_sync_replicas: int | None = None,
        is_leader: bool | None = None,
        replicated: bool | None = None,
    ) -> None: ...
    def wake_by(self, wal: WriteAheadLog) -> None: ...
    def set_durability(
        self, topic: str, partition: int, log: PartitionLog, wal: WriteAheadLog | None
    ) -> None: ...
    def notify(self, topic: str, partition: int, appended_bytes: int = 0) -> None: ...
    def led_epoch(self, topic: str, partition: int) -> int: ...
    def verify_transactions(self, enabled: bool) -> None: ...
    def append(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        leader_epoch: int,
        now_ms: int,
        verification: int = -1,
        transaction_version: int = 0,
    ) -> int: ...
    def durable(self, topic: str, partition: int) -> None: ...
    def watch(self, topic: str, partition: int, offset: int) -> bool: ...
    def take_advanced(self) -> list[tuple[str, int]]: ...
    def set_access(self, table: AclTable) -> None: ...
    def change_access(self, added: list[_Rule], removed: list[_Rule]) -> None: ...
    def recheck_access(self) -> None: ...
    def report_allowed_access(self, reports: bool) -> None: ...
    def take_access(self) -> tuple[list[tuple[str, str, int, str, bool]], int]: ...
    def denied_access(self) -> tuple[int, ...]: ...
    def remove_topic(self, topic: str) -> None: ...
    def counters(self) -> Counters: ...
    def partition_counters(self, topic: str, partition: int) -> tuple[int, int, int, int, int, int]: ...
