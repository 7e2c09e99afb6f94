"""What an unclean end left in the files of a write-ahead log, put back into the partition logs.

The files' frames carry a number and the run (start of a broker) that wrote them. A run's frames have no gaps; the
newest run counts, from the frame after its checkpoint to the first that is missing or torn. What follows a
torn frame was never acknowledged, unless a later frame says that the missing one was on the medium: then it
was damaged afterwards, and that is an error.
"""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset, strerror
from posix.fcntl cimport O_RDONLY, O_RDWR
from bowstring._native.clock cimport wall_clock_ms
from bowstring._native.crc cimport crc32c_update
from bowstring._native.log cimport PartitionLog
from bowstring._native.log_append cimport Replayed, append_replayed
from bowstring._native.log_files cimport file_ops, read_range
from bowstring._native.log_retention cimport log_truncate_fully, log_truncate_to
from bowstring._native.log_types cimport Log
from bowstring._native.wal_files cimport write_trailer
from bowstring._native.wal_types cimport (
    WAL_APPEND, WAL_BLOCK, WAL_MAGIC, WAL_START, WAL_TRAILER_MAGIC, WAL_TRUNCATE, WalEntryHeader, WalFrameHeader)
from bowstring._native.wal import WalError

cdef enum:
    FRAMES_BETWEEN_RUNS = 1 << 20   # torn frames may carry numbers a little beyond the last whole one
    READ_BYTES = 4 << 20

# ---------------------------------------------------------------- which log an entry belongs to

cdef struct Place:
    uint8_t topic_id[16]
    int32_t partition
    Log *log                        # NULL: a free place
    Replayed done

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
    """`wanted` bytes at `position`, or NULL: the file ends before, or cannot be read."""
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
    """The whole frame at `position` if there is a sound one, else NULL."""
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
    return error if file.data != NULL else -12


cdef void frame_file_close(FrameFile *file) noexcept nogil:
    if file.fd >= 0:
        file_ops.close(file.fd)
    free(file.data)

# ---------------------------------------------------------------- one entry, one frame


cdef int replay_entry(const Places *places, const WalEntryHeader *entry, uint8_t *data, int64_t now_ms,
                      int64_t *strangers) noexcept nogil:
    cdef Place *place = place_of(places, entry.topic_id, entry.partition)
    if place.log == NULL:
        strangers[0] += 1                                # its topic was deleted since
        return 0
    if entry.kind == WAL_APPEND:
        return append_replayed(place.log, data, entry.size_bytes, now_ms, &place.done)
    if entry.kind == WAL_TRUNCATE:
        return log_truncate_to(place.log, entry.offset, now_ms)
    if entry.kind == WAL_START:
        return log_truncate_fully(place.log, entry.offset, now_ms)
    return -22


cdef int replay_frame(const Places *places, uint8_t *frame, int64_t now_ms, int64_t *strangers) noexcept nogil:
    cdef WalFrameHeader header
    cdef WalEntryHeader entry
    cdef int64_t at = sizeof(WalFrameHeader), end
    cdef int32_t i
    cdef int error
    memcpy(&header, frame, sizeof(header))
    end = at + header.payload_bytes
    for i in range(header.entries):
        if at + <int64_t>sizeof(WalEntryHeader) > end:
            return -22
        memcpy(&entry, frame + at, sizeof(entry))
        at += sizeof(WalEntryHeader)
        if entry.size_bytes < 0 or at + entry.size_bytes > end:
            return -22
        error = replay_entry(places, &entry, frame + at, now_ms, strangers)
        if error != 0:
            return error
        at += (entry.size_bytes + 7) & ~<int64_t>7
    return 0


cdef int64_t says_durable(FrameFile *file, int64_t position, uint64_t run, int64_t frame) noexcept nogil:
    """Position of a later frame of the run in this file that says `frame` was on the medium; -1 when none does."""
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

cdef int64_t trailer_of(FrameFile *file, uint64_t run) noexcept nogil:
    """The checkpoint a file's last block tells of the run; -1 when it tells none."""
    cdef WalFrameHeader header
    cdef uint8_t *data = NULL
    if file.size_bytes >= WAL_BLOCK:
        data = window(file, file.size_bytes - WAL_BLOCK, WAL_BLOCK)
    if data == NULL:
        return -1
    memcpy(&header, data, sizeof(header))
    if (header.magic != WAL_TRAILER_MAGIC or header.run != run
            or crc32c_update(0, data + 8, <int64_t>sizeof(header) - 8) != header.crc):
        return -1
    return header.checkpoint

# ---------------------------------------------------------------- Python


def segment_numbers(path):
    """Numbers of the segment files in a log directory, ascending."""
    numbers = []
    for name in os.listdir(path):
        head, _, number = name.rpartition(".")
        if head == "bowstring.wal" and number.isdigit():
            numbers.append(int(number))
    return sorted(numbers)



def first_frame(path):
    """``(run, frame)`` of the first frame of a segment file; None when it holds no sound one.

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


cdef class _Walk:
    """The newest run's files in the order of their frames, walked frame by frame."""
    cdef Places places
    cdef uint64_t run
    cdef int64_t expected           # number of the next frame; 0: whatever comes first
    cdef int64_t checkpoint
    cdef int64_t frames
    cdef int64_t bytes
    cdef int64_t strangers
    cdef int64_t end_position       # in the file walked last: where its sound frames end

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
            place.done.gap_from = -1

    def __dealloc__(self):
        free(self.places.items)

    cdef int _walk(self, FrameFile *file, bint apply, int64_t now_ms) noexcept nogil:
        """Takes the file's frames as long as they follow each other; a negated errno."""
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
            if header.checkpoint > self.checkpoint and not apply:
                self.checkpoint = header.checkpoint
            if apply and header.frame > self.checkpoint:
                error = replay_frame(&self.places, frame, now_ms, &self.strangers)
                if error != 0:
                    self.end_position = position
                    return error
                self.frames += 1
                self.bytes += header.payload_bytes
            self.expected = header.frame + 1
            position += header.frame_bytes
        self.end_position = position
        return file.error

    cdef object walk(self, path, bint apply):
        cdef FrameFile file
        cdef int64_t now_ms = wall_clock_ms(), position
        cdef int error = frame_file_open(&file, os.fsencode(path))
        try:
            if error == 0:
                with nogil:
                    error = self._walk(&file, apply, now_ms)
            if error != 0:
                raise WalError(-error, f"{path} could not be put back at position {self.end_position}: "
                                       f"{(<bytes>strerror(-error)).decode()}; nothing was taken out of it: make room "
                                       "or repair what failed, and start again")
            if apply and self.expected != 0:
                with nogil:
                    position = says_durable(&file, self.end_position, self.run, self.expected)
                if position >= 0:
                    raise _damaged(path, self.end_position)
        finally:
            frame_file_close(&file)

    cdef object check(self, path, damaged_path):
        """Whether a file that does not follow says that what is missing was on the medium."""
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

    cdef object read_trailer(self, path):
        cdef FrameFile file
        cdef int64_t found = -1
        cdef int error = frame_file_open(&file, os.fsencode(path))
        if error == 0:
            found = trailer_of(&file, self.run)
            error = file.error
        frame_file_close(&file)
        if error != 0:
            raise _unreadable(path, error)
        if found > self.checkpoint:
            self.checkpoint = found

    def results(self):
        cdef uint32_t i
        cdef Place *p
        cdef dict found = {}
        for i in range(self.places.mask + 1):
            p = &self.places.items[i]
            if p.log != NULL:
                gap = (p.done.gap_from, p.done.gap_to) if p.done.gap_from >= 0 else None
                found[PyBytes_FromStringAndSize(<char *>p.topic_id, 16), p.partition] = (
                    p.done.batches, p.done.bytes, p.done.skipped_batches, gap)
        return found


def _unreadable(path, int error):
    return WalError(-error, f"{path} cannot be read: {(<bytes>strerror(-error)).decode()}; check its permissions and the "
                            "disk. It may hold acknowledged records that are nowhere else")


def _damaged(path, position):
    return WalError(
        f"{path} is damaged at position {position}: what lies there was acknowledged, and is perhaps nowhere else. "
        "Restore the file from a copy; or, to go on without it, move all bowstring.wal.* files out of the directory: "
        "the partitions then end where their own files do")


def survey(path):
    """Greatest frame number a :class:`WriteAheadLog` must stay above, on a directory whose files hold nothing that
    counts."""
    last_frame = 0
    for number in segment_numbers(path):
        first = first_frame(os.path.join(path, f"bowstring.wal.{number}"))
        if first is not None:
            last_frame = max(last_frame, first[1] + FRAMES_BETWEEN_RUNS)
    return last_frame


def supersede(path, uint64_t run, int64_t frame):
    """Says in the files that the run's frames up to ``frame`` are in synced partition files: they are not replayed again.

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


def replay(path, dict logs not None):
    """Puts back what the write-ahead log of a directory holds beyond its last checkpoint.

    Args:
        path: The log directory.
        logs: ``{(topic id, partition): PartitionLog}``, open and recovered, joined to no write-ahead log yet.

    Returns:
        dict: ``last_frame`` (for the next :class:`WriteAheadLog`), ``superseded`` (for :func:`supersede`, once the
        logs are synced; None when there was nothing), ``frames`` and ``bytes``
        replayed, ``unknown`` (entries of partitions that are not there), ``logs``: per log ``(batches, bytes, skipped
        batches, missing offsets or None)``.

    Raises:
        WalError: A file cannot be read, or acknowledged frames are damaged. Nothing was changed in the files.
    """
    cdef _Walk walk = _Walk(logs)
    firsts = []
    last_frame = 0
    superseded = None
    everything = [os.path.join(path, f"bowstring.wal.{number}") for number in segment_numbers(path)]
    for name in everything:
        first = first_frame(name)
        if first is not None:
            firsts.append((first[1], first[0], name))
    firsts.sort()
    if firsts:
        newest_frame, walk.run, newest = max(firsts)
        names = [(frame, name) for frame, run, name in firsts if run == walk.run]
        walk.walk(newest, False)                         # the newest file knows the newest checkpoint,
        for name in everything:                          # or the one that was left when it was begun
            walk.read_trailer(name)
        last_frame = max(walk.expected - 1, newest_frame, walk.checkpoint)
        superseded = (walk.run, last_frame)
        needed = [each for i, each in enumerate(names)
                  if i + 1 == len(names) or names[i + 1][0] > walk.checkpoint + 1]
        walk.expected = 0
        if needed[0][0] > walk.checkpoint + 1:
            raise _missing(path, walk.checkpoint + 1, needed[0][0])
        for i, (frame, name) in enumerate(needed):
            if walk.expected not in (0, frame):          # unless it was on the medium, the log ends before it
                for _, later in needed[i:]:
                    walk.check(later, needed[i - 1][1])
                break
            walk.walk(name, True)
    return {
        "last_frame": last_frame + FRAMES_BETWEEN_RUNS, "superseded": superseded,
        "frames": walk.frames, "bytes": walk.bytes, "unknown": walk.strangers, "logs": walk.results(),
    }


def _missing(path, first, found):
    return WalError(
        f"the write-ahead log in {path} lacks frames {first} to {found - 1}: a bowstring.wal.* file was taken away, or its "
        "beginning is damaged. Restore it from a copy; or, to go on without, move all bowstring.wal.* files out of the "
        "directory: the partitions then end where their own files do")
