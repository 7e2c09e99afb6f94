"""Kafka's compression codecs over the packages that implement them, each imported when first used.

Chosen by measurement on 110 KB of JSON records: zlib and lz4.frame take a bound on their output, which
cramjam's gzip and lz4 do not, and are as fast or faster; cramjam has zstd and raw snappy.

Sources: KIP-110 (zstd), KIP-390 (levels), KIP-57 (LZ4 framing), the xerial snappy-java stream format.
"""

from __future__ import annotations

from collections.abc import Callable

Octets = bytes | bytearray | memoryview
# Attribute bits 0 to 2 of a record batch.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# What a batch may grow to unless the caller says otherwise: 128 times the default max.message.bytes.
DECOMPRESSED_MAX_BYTES = 128 << 20

# What one call of a codec gives at most where memory is bounded.
PIECE_BYTES = 1 << 20

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES = 32 * 1024
LZ4_BLOCK_64K = 4
LZ4_RATIO_MAX = 255
LZ4_FAST_LEVEL = 9  # Kafka's compression.lz4.level default, by which it means the fast compressor
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_LEVEL = 3


class CompressionError(ValueError):
    """Compressed records that cannot be read; the message says which codec and why."""


class DecompressedTooLarge(CompressionError):
    """The output exceeds the caller's limit: the data is a decompression bomb, or the limit is too low."""

    def __init__(self, codec: str, limit: int):
        super().__init__(f"{codec} records decompress to more than {limit} bytes; send smaller batches")


def explained(error: Exception, option: str) -> str:
    """Returns why records cannot be decoded; names the option of the reader if that is its limit."""
    return f"{error}, or raise {option}" if isinstance(error, DecompressedTooLarge) else str(error)


def codec_number(name: str) -> int:
    """Returns Kafka's number of a codec, by its name; ValueError for an unknown name."""
    try:
        return CODECS.index(name)
    except ValueError:
        raise ValueError(f"unknown compression codec {name!r}; use one of {', '.join(CODECS)}") from None


def compress(codec: int, data: Octets, level: int | None = None) -> bytes:
    """Compresses `data` as Kafka's clients and broker expect it; `level` None is Kafka's default."""
    return _COMPRESS[_check(codec)](data, level)


def decompress(codec: int, data: bytes | memoryview, limit: int = DECOMPRESSED_MAX_BYTES) -> bytes:
    """Decompresses `data`.

    DecompressedTooLarge as soon as the output exceeds `limit` bytes (memory stays near that limit);
    CompressionError when `data` is corrupt, truncated, or followed by other bytes.
    """
    return bytes(_DECOMPRESS[_check(codec)](bytes(data), limit, limit + 1))


def decompress_in_place(codec: int, data: bytes, limit: int) -> Octets:
    """Decompresses like `decompress`, but returns any buffer type, which saves a copy.

    Memory stays below `decompressing_bytes(limit)`; freeing a large result returns its memory to the system.
    """
    return _DECOMPRESS[_check(codec)](data, limit, PIECE_BYTES)


def decompressing_bytes(limit: int) -> int:
    """Returns the most memory that `decompress_in_place` uses, including its result."""
    return limit + 2 * min(limit, PIECE_BYTES)


def stated_size(codec: int, data: bytes) -> int | None:
    """Returns the uncompressed size that `data` states, or None if it states none. It may be wrong."""
    if codec == 1:
        return int.from_bytes(data[-4:], "little")  # of the last member
    if codec == 2:
        return _snappy_stated_size(data)
    if codec == 4:
        return zstd_content_size(data)
    return None


def _room(size: int) -> bytearray | memoryview:
    """Zeroed memory. Much of it comes from the system and goes back whole; unwritten pages take nothing."""
    if size < PIECE_BYTES:
        return bytearray(size)
    import mmap

    return memoryview(mmap.mmap(-1, size))


class _Gathered:
    """Pieces of a result: one is taken as it is, several are put together in room for `limit` + 1 bytes."""

    __slots__ = ("_limit", "_one", "_room", "size")

    def __init__(self, limit: int) -> None:
        self.size = 0
        self._limit = limit
        self._one = b""
        self._room: bytearray | memoryview | None = None

    def add(self, piece: bytes) -> None:
        if not self.size:
            self._one = piece
        elif piece:
            if self._room is None:
                self._room = _room(self._limit + 1)
                self._room[: self.size] = self._one
                self._one = b""
            self._room[self.size : self.size + len(piece)] = piece
        self.size += len(piece)

    def all(self) -> Octets:
        return self._one if self._room is None else memoryview(self._room)[: self.size]


def _check(codec: int) -> int:
    if not 0 <= codec < len(CODECS):
        raise CompressionError(f"unknown compression codec {codec}; the codecs are 0 to {len(CODECS) - 1}")
    return codec


def _none_compress(data: Octets, level: int | None) -> bytes:
    return bytes(data)


def _none_decompress(data: bytes, limit: int, piece: int) -> Octets:
    if len(data) > limit:
        raise DecompressedTooLarge("uncompressed", limit)
    return data


# ---------------------------------------------------------------- gzip


def _gzip_compress(data: Octets, level: int | None) -> bytes:
    import zlib

    return zlib.compress(data, -1 if level is None else level, wbits=31)


def _gzip_decompress(data: bytes, limit: int, piece: int) -> Octets:
    import zlib

    out = _Gathered(limit)
    stream = zlib.decompressobj(wbits=31)
    while True:  # one round for each piece, and each member
        try:
            more = stream.decompress(data, min(piece, limit + 1 - out.size))
        except zlib.error as error:
            raise CompressionError(f"gzip records are corrupt: {error}") from None
        out.add(more)
        if out.size > limit:
            raise DecompressedTooLarge("gzip", limit)
        if not stream.eof:
            data = stream.unconsumed_tail
            if not data and not more:
                raise CompressionError("gzip records are truncated")
            continue
        data = stream.unused_data
        if not data:
            return out.all()
        stream = zlib.decompressobj(wbits=31)


# ---------------------------------------------------------------- snappy


def _snappy_compress(data: Octets, level: int | None) -> bytes:
    import cramjam

    blocks = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        blocks += (len(block).to_bytes(4, "big"), block)
    return b"".join(blocks)


def _snappy_decompress(data: bytes, limit: int, piece: int) -> Octets:
    """Xerial's framing, as Java writes it, or one raw block, as other clients do."""
    import cramjam

    blocks = _snappy_blocks(data)
    try:
        sizes = [_snappy_block_size(block) for block in blocks]
        if sum(sizes) > limit:
            raise DecompressedTooLarge("snappy", limit)
        out = memoryview(_room(sum(sizes)))
        at = 0
        for block, size in zip(blocks, sizes, strict=True):
            if cramjam.snappy.decompress_raw_into(block, out[at : at + size]) != size:
                raise CompressionError("snappy records are truncated")
            at += size
    except cramjam.DecompressionError as error:
        raise CompressionError(f"snappy records are corrupt: {error}") from None
    return out


def _snappy_blocks(data: bytes) -> list[bytes]:
    if not data.startswith(XERIAL_MAGIC):
        return [data]
    blocks = []
    at = 0
    while at < len(data):
        if data.startswith(XERIAL_MAGIC, at):  # streams may follow one another
            at += len(XERIAL_HEADER)
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if size > len(data) - at:
            raise CompressionError("snappy records are truncated")
        blocks.append(data[at : at + size])
        at += size
    if at > len(data):
        raise CompressionError("snappy records are truncated")
    return blocks


def _snappy_block_size(block: bytes) -> int:
    import cramjam

    if not block:
        raise CompressionError("snappy records are truncated")
    size: int = cramjam.snappy.decompress_raw_len(block)
    # A byte of snappy stands for 64/3 bytes at most: an honest length is never far from that.
    if size > 24 * len(block) + 64:
        raise CompressionError("snappy records are corrupt: their uncompressed length is impossible")
    return size


def _snappy_stated_size(data: bytes) -> int | None:
    import cramjam

    try:
        return sum(_snappy_block_size(block) for block in _snappy_blocks(data))
    except (CompressionError, cramjam.DecompressionError):
        return None


# ---------------------------------------------------------------- lz4


def _lz4_compress(data: Octets, level: int | None) -> bytes:
    from lz4 import frame  # type: ignore[import-untyped]

    packed: bytes = frame.compress(
        data,
        compression_level=0 if level in (None, LZ4_FAST_LEVEL) else level,
        block_size=LZ4_BLOCK_64K,
        block_linked=False,  # Kafka refuses frames whose blocks depend on each other
        store_size=False,
    )
    return packed


def _lz4_decompress(data: bytes, limit: int, piece: int) -> Octets:
    out = _Gathered(limit)
    while True:  # one round for each frame
        data = _lz4_frame(out, data, limit, piece)
        if not data:
            return out.all()


def _lz4_frame(out: _Gathered, data: bytes, limit: int, piece: int) -> bytes:
    """Adds the content of the first frame; what follows that frame."""
    from lz4 import frame

    try:
        # It cannot pass the bound: the quicker call.
        if LZ4_RATIO_MAX * len(data) <= min(limit - out.size, piece):
            content, read = frame.decompress(data, return_bytes_read=True)
            out.add(content)
            return data[read:]
        stream = frame.LZ4FrameDecompressor()
        while not stream.eof:
            more = stream.decompress(data, max_length=min(piece, limit + 1 - out.size))
            data = b""
            out.add(more)
            if out.size > limit:
                raise DecompressedTooLarge("lz4", limit)
            if not more and not stream.eof:
                raise CompressionError("lz4 records are truncated")
    except RuntimeError as error:
        raise CompressionError(f"lz4 records are corrupt: {error}") from None
    return stream.unused_data or b""


# ---------------------------------------------------------------- zstd


def _zstd_compress(data: Octets, level: int | None) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def zstd_content_size(data: bytes) -> int | None:
    """Returns the content size in a frame's header, or None if it has none (RFC 8878, section 3.1.1.1)."""
    if len(data) < 5 or not data.startswith(ZSTD_MAGIC):
        return None
    descriptor = data[4]
    single_segment = descriptor >> 5 & 1
    at = 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    field = data[at : at + width]
    if width == 0 or len(field) < width:
        return None
    return int.from_bytes(field, "little") + (256 if width == 2 else 0)


def _zstd_decompress(data: bytes, limit: int, piece: int) -> Octets:
    """Into a buffer of the size the frame states, else of a guess that grows fourfold up to the limit."""
    import cramjam

    stated = zstd_content_size(data)
    if stated is not None and stated > limit:
        raise DecompressedTooLarge("zstd", limit)
    room = min(limit, max(8 * len(data), 64 * 1024) if stated is None else stated)
    while True:
        out = memoryview(_room(room))
        try:
            return out[: cramjam.zstd.decompress_into(data, out)]
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CompressionError(f"zstd records are corrupt: {error}") from None
        if room >= limit:
            raise DecompressedTooLarge("zstd", limit)
        room = min(limit, 4 * room)


_COMPRESS: tuple[Callable[[Octets, int | None], bytes], ...] = (
    _none_compress,
    _gzip_compress,
    _snappy_compress,
    _lz4_compress,
    _zstd_compress,
)
_DECOMPRESS: tuple[Callable[[bytes, int, int], Octets], ...] = (
    _none_decompress,
    _gzip_decompress,
    _snappy_decompress,
    _lz4_decompress,
    _zstd_decompress,
)
