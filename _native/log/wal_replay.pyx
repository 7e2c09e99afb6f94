"""Replays a write-ahead log after an unclean stop: restores its batches in the partition logs.

Each frame has a number and the run (start of a broker) that wrote it. A run's frames have no gaps. Only the newest run
is replayed, from the frame after its checkpoint to the first frame that is missing or torn. Frames after a torn one
were never acknowledged, unless a later frame says that the missing one was on the medium: then it was damaged
afterwards, which is an error.

The replay reads the frames twice: first to find entries of logs that left (WAL_LEFT), then to restore batches.
"""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.errno cimport EBADMSG, EINVAL, ENOMEM
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset, strerror
from posix.fcntl cimport O_RDONLY, O_RDWR
from bowstring._native.base.bigendian cimport load_be32
from bowstring._native.base.clock cimport wall_clock_ms
from bowstring._native.base.crc cimport crc32c_update
from bowstring._native.disk.file_ops cimport file_ops, read_range
from bowstring._native.log.partition_log cimport PartitionLog
from bowstring._native.log.replay cimport Replayed, log_replay, replayed_init, replayed_truncate
from bowstring._native.log.truncate cimport log_truncate_fully, log_truncate_to
from bowstring._native.log.types cimport Log
from bowstring._native.record.batch cimport BATCH_HEADER_BYTES, BATCH_LENGTH, BATCH_LENGTH_PREFIX_BYTES
from bowstring._native.wal.segment_files cimport write_trailer
from bowstring._native.wal.types cimport (
    WAL_APPEND, WAL_BLOCK, WAL_LEFT, WAL_MAGIC, WAL_PART, WAL_START, WAL_TRAILER_MAGIC, WAL_TRUNCATE,
    WalEntryHeader, WalFrameHeader)
from bowstring._native.wal.write_ahead_log import WalError

cdef enum:
    FRAMES_BETWEEN_RUNS = 1 << 20   # torn frames may have numbers a little above that of the last complete one
    READ_BYTES = 4 << 20
    NO_ROUND = 1 << 30

# ---------------------------------------------------------------- which log an entry belongs to

cdef struct Place:
    uint8_t topic_id[16]
    int32_t partition
    Log *log                        # NULL: a free slot
    Replayed done
    int64_t left_at                 # number of the WAL_LEFT entry, counted from the first one walked; 0: none
    # the pieces of a batch so far; NULL: none
    uint8_t *batch
    int64_t batch_offset
    int64_t batch_bytes
    int64_t batch_filled

cdef struct Places:
    Place *items
    uint32_t mask


cdef uint32_t hash_of(const uint8_t *topic_id, int32_t partition) noexcept nogil:
    cdef uint64_t h
    memcpy(&h, topic_id, 8)
    h = (h ^ <uint64_t>partition * 0x9E3779B97F4A7C15ULL) * 0xBF58476D1CE4E5B9ULL
    return <uint32_t>(h >> 32)


cdef Place *place_of(const Places *places, const uint8_t *topic_id, int32_t partition) noexcept nogil:
    cdef uint32_t i = hash_of(topic_id, partition) & places.mask
    while places.items[i].log != NULL:
        if places.items[i].partition == partition and memcmp(places.items[i].topic_id, topic_id, 16) == 0:
            return &places.items[i]
        i = (i + 1) & places.mask
    return &places.items[i]


cdef void forget_batch(Place *place) noexcept nogil:
    free(place.batch)
    place.batch = NULL

# ---------------------------------------------------------------- frames of one file

cdef struct FrameFile:
    int fd
    int64_t size_bytes
    uint8_t *data                   # a window of the file
    int64_t capacity
    int64_t from_position
    int64_t filled
    int error                       # negated errno of a read that failed


cdef uint8_t *window(FrameFile *file, int64_t position, int64_t wanted) noexcept nogil:
    """Returns `wanted` bytes at `position`; NULL: the file ends before, or cannot be read."""
    cdef int64_t n
    cdef uint8_t *grown
    if position + wanted > file.size_bytes:
        return NULL
    if position < file.from_position or position + wanted > file.from_position + file.filled:
        if wanted > file.capacity:
            grown = <uint8_t *>malloc(<size_t>wanted)
            if grown == NULL:
                return NULL
            free(file.data)
            file.data = grown
            file.capacity = wanted
        n = file.size_bytes - position
        n = read_range(file.fd, file.data, n if n < file.capacity else file.capacity, position)
        if n < 0:
            file.error = <int>n
            file.filled = 0
            return NULL
        file.from_position = position
        file.filled = n
        if n < wanted:
            return NULL
    return file.data + (position - file.from_position)


cdef uint8_t *frame_at(FrameFile *file, int64_t position) noexcept nogil:
    """Returns the frame at `position` if it is whole and its CRC is right, else NULL."""
    cdef uint8_t *data = window(file, position, sizeof(WalFrameHeader))
    cdef WalFrameHeader header
    if data == NULL:
        return NULL
    memcpy(&header, data, sizeof(header))
    if (header.magic != WAL_MAGIC or header.frame_bytes % WAL_BLOCK != 0 or header.frame_bytes == 0
            or header.payload_bytes > header.frame_bytes - sizeof(header)):
        return NULL
    data = window(file, position, header.frame_bytes)
    if data == NULL or crc32c_update(0, data + 8, header.payload_bytes + <int64_t>sizeof(header) - 8) != header.crc:
        return NULL
    return data


cdef int frame_file_open(FrameFile *file, const char *path) noexcept nogil:
    cdef int error
    memset(file, 0, sizeof(FrameFile))
    file.fd = file_ops.open(path, O_RDONLY)
    if file.fd < 0:
        return file.fd
    error = file_ops.stat(file.fd, &file.size_bytes, NULL)
    file.capacity = READ_BYTES
    file.data = <uint8_t *>malloc(READ_BYTES)
    return error if file.data != NULL else -ENOMEM


cdef void frame_file_close(FrameFile *file) noexcept nogil:
    if file.fd >= 0:
        file_ops.close(file.fd)
    free(file.data)

# ---------------------------------------------------------------- one entry, one frame


cdef struct Progress:
    # The progress of one walk over the frames. Entries from before a move are applied in an earlier round than those after
    # it, which another write-ahead log has.
    int32_t moves                   # this round's
    int32_t next_moves              # the next round's; NO_ROUND: none
    int64_t entries
    int64_t strangers               # entries of logs that do not exist
    int64_t now_ms
    bint apply                      # False: only looks for logs that left


cdef int replay_part(Place *place, const WalEntryHeader *entry, uint8_t *data, int64_t now_ms) noexcept nogil:
    """Adds a piece; the last piece completes the batch, which is then restored. If the first pieces are missing, the batch
    was in a synced file when they were overwritten. If the last pieces are missing, it was never acknowledged."""
    cdef int error
    if entry.part_position == 0:
        forget_batch(place)
        if entry.size_bytes < BATCH_HEADER_BYTES:
            return -EBADMSG
        place.batch_offset = entry.offset
        place.batch_bytes = <int64_t>load_be32(data + BATCH_LENGTH) + BATCH_LENGTH_PREFIX_BYTES
        place.batch_filled = 0
        place.batch = <uint8_t *>malloc(<size_t>place.batch_bytes)
        if place.batch == NULL:
            return -ENOMEM
    if place.batch == NULL or place.batch_offset != entry.offset or place.batch_filled != entry.part_position \
            or place.batch_filled + entry.size_bytes > place.batch_bytes:
        forget_batch(place)
        return 0
    memcpy(place.batch + place.batch_filled, data, <size_t>entry.size_bytes)
    place.batch_filled += entry.size_bytes
    if place.batch_filled < place.batch_bytes:
        return 0
    error = log_replay(place.log, place.batch, place.batch_bytes, now_ms, &place.done)
    forget_batch(place)
    return error


cdef int replay_entry(const Places *places, const WalEntryHeader *entry, uint8_t *data, Progress *progress) noexcept nogil:
    cdef Place *place = place_of(places, entry.topic_id, entry.partition)
    if place.log == NULL:
        progress.strangers += 1                          # its topic was deleted later
        return 0
    if not progress.apply:
        if entry.kind == WAL_LEFT:
            place.left_at = progress.entries
        return 0
    if progress.entries <= place.left_at or entry.moves < progress.moves:
        return 0
    if entry.moves > progress.moves:
        progress.next_moves = min(progress.next_moves, entry.moves)
        return 0
    if entry.kind == WAL_APPEND:
        return log_replay(place.log, data, entry.size_bytes, progress.now_ms, &place.done)
    if entry.kind == WAL_PART:
        return replay_part(place, entry, data, progress.now_ms)
    if entry.kind == WAL_TRUNCATE:
        replayed_truncate(&place.done, entry.offset)
        return log_truncate_to(place.log, entry.offset, progress.now_ms)
    if entry.kind == WAL_START:
        replayed_truncate(&place.done, 0)
        return log_truncate_fully(place.log, entry.offset, progress.now_ms)
    return -EINVAL


cdef int replay_frame(const Places *places, uint8_t *frame, Progress *progress) noexcept nogil:
    cdef WalFrameHeader header
    cdef WalEntryHeader entry
    cdef int64_t at = sizeof(WalFrameHeader), end
    cdef int32_t i
    cdef int error
    memcpy(&header, frame, sizeof(header))
    end = at + header.payload_bytes
    for i in range(header.entries):
        if at + <int64_t>sizeof(WalEntryHeader) > end:
            return -EINVAL
        memcpy(&entry, frame + at, sizeof(entry))
        at += sizeof(WalEntryHeader)
        if entry.size_bytes < 0 or at + entry.size_bytes > end:
            return -EINVAL
        progress.entries += 1
        error = replay_entry(places, &entry, frame + at, progress)
        if error != 0:
            return error
        at += (entry.size_bytes + 7) & ~<int64_t>7
    return 0


cdef int64_t says_durable(FrameFile *file, int64_t position, uint64_t run, int64_t frame) noexcept nogil:
    """Returns the position of a later frame of the run in this file that says `frame` was durable; -1: there is none."""
    cdef WalFrameHeader header
    cdef uint8_t *data
    position += WAL_BLOCK
    while position + WAL_BLOCK <= file.size_bytes:
        data = frame_at(file, position)
        if data != NULL:
            memcpy(&header, data, sizeof(header))
            if header.run == run and header.frame > frame and header.durable >= frame:
                return position
        position += WAL_BLOCK
    return -1

cdef int64_t trailer_of(FrameFile *file) noexcept nogil:
    """Returns the checkpoint in the last block of a file; -1 when there is none.

    It is valid for every run, because frames of later runs have higher numbers. The first file of the checkpoint's run
    may no longer exist while a file of an older run does."""
    cdef WalFrameHeader header
    cdef uint8_t *data = NULL
    if file.size_bytes >= WAL_BLOCK:
        data = window(file, file.size_bytes - WAL_BLOCK, WAL_BLOCK)
    if data == NULL:
        return -1
    memcpy(&header, data, sizeof(header))
    if (header.magic != WAL_TRAILER_MAGIC
            or crc32c_update(0, data + 8, <int64_t>sizeof(header) - 8) != header.crc):
        return -1
    return header.checkpoint

# ---------------------------------------------------------------- Python


def segment_numbers(path):
    """Returns the numbers of the segment files in a log directory, ascending."""
    numbers = []
    for name in os.listdir(path):
        head, _, number = name.rpartition(".")
        if head == "bowstring.wal" and number.isascii() and number.isdigit():
            numbers.append(int(number))
    return sorted(numbers)



def first_frame(path):
    """Returns ``(run, frame)`` of the first frame of a segment file; None if the file has no valid frame.

    Raises:
        WalError: The file cannot be read.
    """
    cdef FrameFile file
    cdef WalFrameHeader header
    cdef uint8_t *data
    cdef int error = frame_file_open(&file, os.fsencode(path))
    try:
        if error == 0:
            data = frame_at(&file, 0)
            error = file.error
        if error != 0:
            raise _unreadable(path, error)
        if data == NULL:
            return None
        memcpy(&header, data, sizeof(header))
        return header.run, header.frame
    finally:
        frame_file_close(&file)


def told_checkpoint(path):
    """Returns the greatest checkpoint in the last block of a segment file; 0 when there is none.

    Raises:
        WalError: A file cannot be read.
    """
    cdef FrameFile file
    cdef int64_t found, newest = 0
    cdef int error
    for number in segment_numbers(path):
        name = os.path.join(path, f"bowstring.wal.{number}")
        found = -1
        error = frame_file_open(&file, os.fsencode(name))
        if error == 0:
            found = trailer_of(&file)
            error = file.error
        frame_file_close(&file)
        if error != 0:
            raise _unreadable(name, error)
        newest = max(newest, found)
    return newest


cdef class _Walk:
    """The newest run's files in the order of their frames, walked frame by frame."""
    cdef Places places
    cdef uint64_t run
    cdef int64_t expected           # number of the next frame; 0: any
    cdef int64_t checkpoint
    cdef int64_t frames
    cdef int64_t bytes
    cdef Progress progress
    cdef int64_t end_position       # end of the good frames in the file walked last

    def __cinit__(self, dict logs):
        cdef uint32_t size = 16
        cdef Place *place
        cdef PartitionLog log
        while size < 2 * len(logs):
            size *= 2
        self.places.items = <Place *>calloc(size, sizeof(Place))
        self.places.mask = size - 1
        if self.places.items == NULL:
            raise MemoryError
        for (topic_id, partition), log in logs.items():
            place = place_of(&self.places, <const uint8_t *>PyBytes_AS_STRING(topic_id), partition)
            memcpy(place.topic_id, PyBytes_AS_STRING(topic_id), 16)
            place.partition = partition
            place.log = log.log
            replayed_init(&place.done)

    def __dealloc__(self):
        cdef uint32_t i
        if self.places.items != NULL:
            for i in range(self.places.mask + 1):
                free(self.places.items[i].batch)
        free(self.places.items)

    cdef void begin(self, bint apply, int32_t moves):
        """Starts a walk at the first frame to replay."""
        self.expected = 0
        self.progress = Progress(moves, NO_ROUND, 0, 0, wall_clock_ms(), apply)

    cdef int _walk(self, FrameFile *file, bint entries) noexcept nogil:
        """Reads the file's frames as long as their numbers are consecutive. Returns 0 or a negated errno. Without `entries`
        it only looks for the newest checkpoint."""
        cdef int64_t position = 0
        cdef WalFrameHeader header
        cdef uint8_t *frame
        cdef int error
        while True:
            frame = frame_at(file, position)
            if frame == NULL:
                break
            memcpy(&header, frame, sizeof(header))
            if header.run != self.run or (self.expected != 0 and header.frame != self.expected):
                break
            if header.checkpoint > self.checkpoint and not entries:
                self.checkpoint = header.checkpoint
            if entries and header.frame > self.checkpoint:
                error = replay_frame(&self.places, frame, &self.progress)
                if error != 0:
                    self.end_position = position
                    return error
                if self.progress.apply and self.progress.moves == 0:
                    self.frames += 1
                    self.bytes += header.payload_bytes
            self.expected = header.frame + 1
            position += header.frame_bytes
        self.end_position = position
        return file.error

    cdef object walk(self, path, bint entries):
        cdef FrameFile file
        cdef int64_t position
        cdef int error = frame_file_open(&file, os.fsencode(path))
        try:
            if error == 0:
                with nogil:
                    error = self._walk(&file, entries)
            if error != 0:
                raise WalError(-error, f"replaying {path} failed at position {self.end_position}: "
                                       f"{(<bytes>strerror(-error)).decode()}. The file is unchanged and no record is "
                                       "lost: free space or repair the disk, then start again")
            if entries and self.expected != 0:
                with nogil:
                    position = says_durable(&file, self.end_position, self.run, self.expected)
                if position >= 0:
                    raise _damaged(path, self.end_position)
        finally:
            frame_file_close(&file)

    cdef object walk_all(self, list needed, bint apply, int32_t moves):
        """Walks ``[(first frame, path)]``. Returns the next round's moves, NO_ROUND without one."""
        self.begin(apply, moves)
        for i, (frame, name) in enumerate(needed):
            if self.expected not in (0, frame):          # the log ends before a missing frame that was not durable
                for _, later in needed[i:]:
                    self.check(later, needed[i - 1][1])
                break
            self.walk(name, True)
        return self.progress.next_moves

    cdef object check(self, path, damaged_path):
        """Raises WalError if a file after a gap says that the missing frames were durable."""
        cdef FrameFile file
        cdef int64_t damaged_position = self.end_position, position = -1
        cdef int error = frame_file_open(&file, os.fsencode(path))
        if error == 0:
            with nogil:
                position = says_durable(&file, -WAL_BLOCK, self.run, self.expected)
                error = file.error
        frame_file_close(&file)
        if error != 0:
            raise _unreadable(path, error)
        if position >= 0:
            raise _damaged(damaged_path, damaged_position)

    def results(self):
        cdef uint32_t i
        cdef Place *p
        cdef dict found = {}
        for i in range(self.places.mask + 1):
            p = &self.places.items[i]
            if p.log != NULL:
                gap = (p.done.gap_from, p.done.gap_to) if p.done.gap_from >= 0 else None
                cut = p.done.cut_from if p.done.cut_from >= 0 else None
                found[PyBytes_FromStringAndSize(<char *>p.topic_id, 16), p.partition] = (
                    p.done.batches, p.done.bytes, p.done.skipped_batches, gap, cut)
        return found


def _unreadable(path, int error):
    return WalError(-error, f"{path} cannot be read: {(<bytes>strerror(-error)).decode()}; check its permissions and the "
                            "disk. It may hold the only copy of acknowledged records")


def _damaged(path, position):
    return WalError(
        f"{path} is damaged at position {position}, which may have held the only copy of acknowledged records. "
        "Restore the file from a copy. To start without these records, move all bowstring.wal.* files out of the "
        "directory; each partition then ends where its own files end")


def survey(path):
    """Returns the frame number above which a :class:`WriteAheadLog` must start, for a directory whose files need no
    replay."""
    last_frame = told_checkpoint(path)
    for number in segment_numbers(path):
        first = first_frame(os.path.join(path, f"bowstring.wal.{number}"))
        if first is not None:
            last_frame = max(last_frame, first[1] + FRAMES_BETWEEN_RUNS)
    return last_frame


def supersede(path, uint64_t run, int64_t frame):
    """Records in the files that the run's frames up to ``frame`` are in synced partition files and need no replay.

    Raises:
        WalError: A file cannot be written.
    """
    cdef int fd
    cdef int64_t size_bytes = 0
    cdef int error
    for number in segment_numbers(path):
        name = os.path.join(path, f"bowstring.wal.{number}")
        fd = file_ops.open(os.fsencode(name), O_RDWR)
        error = fd if fd < 0 else file_ops.stat(fd, &size_bytes, NULL)
        if error == 0 and size_bytes >= WAL_BLOCK:
            error = write_trailer(fd, size_bytes, run, frame)
        if fd >= 0:
            file_ops.close(fd)
        if error != 0:
            raise WalError(-error, f"{name} cannot be written: {(<bytes>strerror(-error)).decode()}")


cdef class _Replay:
    """The replay of one directory: what it needs, found by a first walk."""
    cdef _Walk walk
    cdef list needed                # [(first frame, path)] of the files with frames to apply
    cdef object last_frame
    cdef object superseded

    def __init__(self, path, dict logs):
        self.walk = _Walk(logs)
        self.needed = []
        self.superseded = None
        firsts = []
        self.last_frame = self.walk.checkpoint = told_checkpoint(path)
        for name in [os.path.join(path, f"bowstring.wal.{number}") for number in segment_numbers(path)]:
            first = first_frame(name)
            if first is not None:
                firsts.append((first[1], first[0], name))
        firsts.sort()
        if not firsts:
            return
        newest_frame, self.walk.run, newest = max(firsts)
        names = [(frame, name) for frame, run, name in firsts if run == self.walk.run]
        self.walk.walk(newest, False)                    # its frames may have a newer checkpoint than the last blocks
        self.last_frame = max(self.walk.expected - 1, newest_frame, self.walk.checkpoint)
        self.superseded = (self.walk.run, self.last_frame)
        self.needed = [each for i, each in enumerate(names)
                       if i + 1 == len(names) or names[i + 1][0] > self.walk.checkpoint + 1]
        if self.needed[0][0] > self.walk.checkpoint + 1:
            raise _missing(path, self.walk.checkpoint + 1, self.needed[0][0])
        self.walk.walk_all(self.needed, False, 0)

    def result(self):
        return {
            "last_frame": self.last_frame + FRAMES_BETWEEN_RUNS, "superseded": self.superseded,
            "frames": self.walk.frames, "bytes": self.walk.bytes, "unknown": self.walk.progress.strangers,
            "logs": self.walk.results(),
        }


def replay(paths, dict logs not None):
    """Restores the batches that the write-ahead logs of directories have after their last checkpoints.

    A partition that moved has entries in several: those from before a move are applied first.

    Args:
        paths: All log directories that were not closed cleanly.
        logs: ``{(topic id, partition): PartitionLog}``: open and recovered, without a write-ahead log yet.

    Returns:
        dict: For each path ``last_frame`` (for the next :class:`WriteAheadLog`), ``superseded`` (for :func:`supersede`,
        once the logs are synced; None when nothing was replayed), ``frames`` and ``bytes``
        replayed, ``unknown`` (entries of unknown partitions), ``logs``: for each log ``(batches, bytes, skipped
        batches, missing offsets or None, offset from which on the log's own files had other data or None)``.

    Raises:
        WalError: A file cannot be read, or acknowledged frames are damaged. The files are unchanged.
    """
    cdef int32_t moves = 0, following
    cdef _Replay one
    cdef dict begun = {path: _Replay(path, logs) for path in paths}
    while moves != NO_ROUND:
        following = NO_ROUND
        for one in begun.values():
            following = min(following, <int32_t>one.walk.walk_all(one.needed, True, moves))
        moves = following
    return {path: each.result() for path, each in begun.items()}


def _missing(path, first, found):
    return WalError(
        f"the write-ahead log in {path} lacks frames {first} to {found - 1}: a bowstring.wal.* file was removed, or its "
        "beginning is damaged. Restore it from a copy. To start without its records, move all bowstring.wal.* files "
        "out of the directory; each partition then ends where its own files end")
