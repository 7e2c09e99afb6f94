"""Checks compressed framing without decompressing: the data must be one complete frame, or a chain of frames.

The broker stores most compressed batches without decompressing them. The CRC finds flipped bits. This check finds data
that is not the codec's output, or was truncated before the CRC was computed. It costs a few reads of block headers.
Formats: RFC 1952 (gzip), Snappy format description and the xerial stream Java writes, LZ4 Frame Format 1.6,
RFC 8878 (Zstandard).
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

cdef enum:
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4
    GZIP_MIN_BYTES = 20             # header 10, an empty deflate block 2, trailer 8
    XERIAL_HEADER_BYTES = 16
    LZ4_MAGIC = 0x184D2204
    ZSTD_MAGIC = 0xFD2FB528u
    SKIPPABLE_MAGIC = 0x184D2A50    # and the fifteen numbers after it


cdef inline uint32_t little32(const uint8_t *p) noexcept nogil:
    cdef uint32_t v
    memcpy(&v, p, 4)                # base/wire.pxd compiles on little-endian machines only
    return v


cdef bint gzip_ok(const uint8_t *p, int64_t n) noexcept nogil:
    """Checks the first member's header. Finding the end of a member would require decompression."""
    return n >= GZIP_MIN_BYTES and p[0] == 0x1F and p[1] == 0x8B and p[2] == 8 and not p[3] & 0xE0


cdef int64_t lz4_frame(const uint8_t *p, int64_t n) noexcept nogil:
    """Returns the bytes of the frame at p; -1 if it is not a frame."""
    cdef int64_t at = 7
    cdef uint32_t size
    cdef uint8_t flags
    if n < 11 or little32(p) != <uint32_t>LZ4_MAGIC:
        return -1
    flags = p[4]
    if flags >> 6 != 1:
        return -1
    if flags & 0x08:                # content size
        at += 8
    if flags & 0x01:                # dictionary id
        at += 4
    while at + 4 <= n:
        size = little32(p + at)
        at += 4
        if size == 0:
            at += 4 if flags & 0x04 else 0
            return at if at <= n else -1
        at += size & 0x7FFFFFFF
        if flags & 0x10:            # block checksums
            at += 4
    return -1


cdef int64_t zstd_frame(const uint8_t *p, int64_t n) noexcept nogil:
    cdef int64_t at = 5
    cdef uint32_t block, size
    cdef uint8_t flags
    if n < 8:
        return -1
    if (little32(p) & 0xFFFFFFF0u) == <uint32_t>SKIPPABLE_MAGIC:
        return 8 + <int64_t>little32(p + 4) if 8 + <int64_t>little32(p + 4) <= n else -1
    if little32(p) != <uint32_t>ZSTD_MAGIC:
        return -1
    flags = p[4]
    at += (1 << (flags & 3)) >> 1                        # dictionary id: 0, 1, 2 or 4 bytes
    if flags & 0x20:                                     # single segment: no window descriptor
        at += 1 << (flags >> 6)
    else:
        at += 1 + (1 << (flags >> 6) if flags >> 6 else 0)
    while at + 3 <= n:
        block = p[at] | (<uint32_t>p[at + 1] << 8) | (<uint32_t>p[at + 2] << 16)
        size = block >> 3
        at += 3
        if (block >> 1) & 3 == 3:
            return -1
        at += 1 if (block >> 1) & 3 == 1 else size       # a run-length block is one byte
        if block & 1:
            at += 4 if flags & 4 else 0
            return at if at <= n else -1
    return -1


cdef bint snappy_raw_ok(const uint8_t *p, int64_t n) noexcept nogil:
    """Steps over the elements of a raw block: their lengths must add up to the length it begins with."""
    cdef int64_t at = 0, announced = 0, produced = 0, length
    cdef int shift = 0, extra
    cdef uint8_t tag
    while True:
        if at >= n or shift > 28:
            return False
        announced |= <int64_t>(p[at] & 0x7F) << shift
        at += 1
        if p[at - 1] < 0x80:
            break
        shift += 7
    while at < n:
        tag = p[at]
        at += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                extra = <int>length - 60
                if at + extra > n:
                    return False
                length = 0
                memcpy(&length, p + at, extra)
                length += 1
                at += extra
            at += length
        else:
            length = ((tag >> 2) & 7) + 4 if tag & 3 == 1 else (tag >> 2) + 1
            at += 1 if tag & 3 == 1 else 2 if tag & 3 == 2 else 4
        produced += length
        if produced > announced:
            return False
    return at == n and produced == announced


cdef bint xerial_ok(const uint8_t *p, int64_t n) noexcept nogil:
    cdef int64_t at = XERIAL_HEADER_BYTES
    while at + 4 <= n:
        at += 4 + ((<int64_t>p[at] << 24) | (p[at + 1] << 16) | (p[at + 2] << 8) | p[at + 3])
    return at == n and n > XERIAL_HEADER_BYTES


cdef bint framing_ok(int codec, const uint8_t *data, int64_t n) noexcept nogil:
    cdef int64_t at = 0, size
    if codec == GZIP:
        return gzip_ok(data, n)
    if codec == SNAPPY:
        if n >= XERIAL_HEADER_BYTES and memcmp(data, b"\x82SNAPPY\x00", 8) == 0:
            return xerial_ok(data, n)
        return snappy_raw_ok(data, n)
    while at < n:
        size = lz4_frame(data + at, n - at) if codec == LZ4 else zstd_frame(data + at, n - at)
        if size <= 0:
            return False
        at += size
    return n > 0


def looks_compressed(int codec, const uint8_t[::1] data not None):
    """Runs framing_ok() for tests: True if ``data`` has the structure of the codec's output (1 gzip … 4 zstd)."""
    return data.shape[0] > 0 and framing_ok(codec, &data[0], data.shape[0])
