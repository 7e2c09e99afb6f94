"""The log's functions for native code of other packages: server/ and cleaner/ cimport from here.

A name binds to the module that defines it; the .pxd of that module says what it does. Not here: future_replica. Every
module that cimports from here looks up the classes named here, and only server/replica_swap.pyx uses that one.

Locking: `Log.lock` guards everything below the line in struct Log (types.pxd). The offsets above it are atomics that any
thread may load. Functions named log_* take the lock themselves unless their comment says otherwise.
"""
# ---------------------------------------------------------------- reading and appending (for server/)
from bowstring._native.log.append cimport AS_WRITTEN, log_append, log_verified, log_verify
from bowstring._native.log.disk_read cimport ColdRead, CorruptFound, cold_read, cold_read_of, read_warm
from bowstring._native.log.durability cimport NOW, log_durable_to
from bowstring._native.log.leader_epochs cimport log_end_offset_for_epoch
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.read cimport cursor_forget, log_read, slice_shorten
from bowstring._native.log.retention cimport log_delete_records
from bowstring._native.log.segment_files cimport segment_file_release
from bowstring._native.log.state cimport log_advance_high_watermark
from bowstring._native.log.transaction_index cimport (
    ABORTED_ALL, ABORTED_COLD, AbortedList, aborted_most, log_aborted)
from bowstring._native.log.truncate cimport log_truncate_fully, log_truncate_to
from bowstring._native.log.types cimport AppendEntry, Log, LogConfig, LogSlice, ReadCursor, SegmentFile
from bowstring._native.log.verification cimport NOT_VERIFIED

# ---------------------------------------------------------------- rewriting segments (for cleaner/)
from bowstring._native.log.index cimport offset_index_floor
from bowstring._native.log.producer_state cimport Marker, marker_read, snapshot_forget
from bowstring._native.log.segment cimport (
    file_delete_later, last_offset_of, segment_delete, segment_first_timestamp, segment_floor, segment_free,
    segment_make, segments_remove)
from bowstring._native.log.segment_files cimport segment_file, segment_file_path
from bowstring._native.log.state cimport log_fail
from bowstring._native.log.timestamp_search cimport first_timestamps_learn
from bowstring._native.log.transaction_index cimport (
    ENTRY_FIRST_OFFSET, ENTRY_LAST_OFFSET, ENTRY_LAST_STABLE_OFFSET, ENTRY_PRODUCER_ID)
from bowstring._native.log.types cimport (
    ABORTED_ENTRY_BYTES, NO_TIMESTAMP, REMEMBERED_BATCHES, LogState, Producer, Producers, Segment, lock_with_gil,
    state_of)
from bowstring._native.log.verified_ranges cimport io_clock_advance
