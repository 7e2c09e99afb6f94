"""The structures of one run of the cleaner over one log. A run belongs to one thread; other threads only call
Cleaning.stop(), which sets an atomic.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t
from bowstring._native.base.pthread cimport pthread_mutex_t
from bowstring._native.base.wire cimport Writer
from bowstring._native.cleaner.offset_map cimport KeyMap
from bowstring._native.cleaner.transactions cimport AbortedList, Transactions
from bowstring._native.log cimport Log

cdef struct Throttle:
    # Limits the bytes that all cleaner threads read and write together. Guarded by its lock.
    pthread_mutex_t lock
    double bytes_per_second         # infinity: no bound
    int64_t next_ns                 # when the rate allows the next request

cdef struct Source:
    # A segment to clean, as it was when the run was planned.
    int64_t base_offset
    int64_t size_bytes
    int64_t index_bytes
    int64_t time_index_bytes

cdef struct LastData:
    # The newest batch of records of a remembered producer.
    int64_t producer_id
    int64_t last_offset             # -1: it only ever wrote markers
    int16_t epoch

cdef struct BatchReader:
    # Reads a .log file batch by batch, once and in order, with complete batches in memory.
    int fd
    int64_t end                     # of the file
    int64_t position                # of data[0] in the file
    uint8_t *data
    int64_t filled
    int64_t at                      # of the next batch in data
    int64_t capacity

cdef struct CleanedSegment:
    # A segment being written beside those it will replace, as <base offset>.log.cleaned and so on.
    int fd                          # of the .log; -1: there is none
    int64_t base_offset
    Writer data                     # of the .log, not yet written
    int64_t written_bytes           # of the .log
    Writer offset_entries
    Writer time_entries
    int64_t bytes_since_index
    int64_t last_entry_timestamp
    int64_t largest_timestamp
    int64_t largest_timestamp_offset
    int64_t first_timestamp
    AbortedList aborted

cdef struct Span:
    # Adjacent records that stay.
    const uint8_t *start
    const uint8_t *end

cdef struct Kept:
    # The records of a batch that stay.
    Span *spans
    int32_t span_count
    int32_t span_capacity
    int32_t count
    int64_t size_bytes
    int64_t max_timestamp
    int8_t tombstones

cdef struct CleanCounters:
    int64_t map_records
    int64_t map_bytes
    int64_t read_records
    int64_t read_bytes
    int64_t written_records
    int64_t written_bytes
    int64_t keyless_records         # dropped because their log requires keys
    int64_t removed_segments
    int64_t mapped_ns               # how long the first pass took

cdef struct CleanRun:
    Log *log
    char *directory                 # as it was when the run was planned
    int64_t truncations
    int64_t now_ms
    int64_t delete_retention_ms
    int64_t first_dirty_offset
    int64_t first_uncleanable_offset
    int64_t high_watermark          # when the run was planned
    int64_t latest_offset           # the map has every key up to this offset
    int64_t io_bytes
    int64_t dedupe_bytes
    double load_factor
    KeyMap map
    Transactions transactions
    BatchReader input
    CleanedSegment output
    Kept kept
    Writer scratch
    Source *sources
    int32_t source_count
    LastData *producers             # by producer id
    int32_t producer_count
    Throttle *throttle              # NULL: none
    int32_t stopped                 # atomic
    void *plain                     # the bytes object that holds the records of a compressed batch, or NULL
    CleanCounters counters
    const char *reason              # why the batch at bad_position of segment bad_segment is bad
    int64_t bad_segment
    int64_t bad_position
