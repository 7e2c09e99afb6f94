"""Kafka's compression codecs over the packages that implement them, each imported when first used.

Chosen by measurement on 110 KB of JSON records: zlib and lz4.frame take a bound on their output, which
cramjam's gzip and lz4 do not, and are as fast or faster; cramjam has zstd and raw snappy.

Sources: KIP-110 (zstd), KIP-390 (levels), KIP-57 (LZ4 framing), the xerial snappy-java stream format.
"""

from __future__ import annotations

from collections.abc import Callable

# Attribute bits 0 to 2 of a record batch.
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

# What a batch may grow to unless the caller says otherwise: 128 times the default max.message.bytes.
DECOMPRESSED_MAX_BYTES = 128 << 20

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
    """The output would pass the caller's limit: a decompression bomb, or a limit set too low."""

    def __init__(self, codec: str, limit: int):
        super().__init__(
            f"{codec} records decompress to more than {limit} bytes; send smaller batches or raise the limit"
        )


def codec_number(name: str) -> int:
    """Kafka's number for a codec's name; ValueError names the ones there are."""
    try:
        return CODECS.index(name)
    except ValueError:
        raise ValueError(f"unknown compression codec {name!r}; there are {', '.join(CODECS)}") from None


def compress(codec: int, data: bytes, level: int | None = None) -> bytes:
    """`data` compressed as Kafka's clients and broker read it; `level` None is Kafka's default."""
    return _COMPRESS[_check(codec)](data, level)


def decompress(codec: int, data: bytes | memoryview, limit: int = DECOMPRESSED_MAX_BYTES) -> bytes:
    """The bytes behind `data`.

    DecompressedTooLarge as soon as there are more than `limit` of them (memory stays near that bound);
    CompressionError when `data` is corrupt, cut short, or followed by something else.
    """
    return _DECOMPRESS[_check(codec)](bytes(data), limit)


def _check(codec: int) -> int:
    if not 0 <= codec < len(CODECS):
        raise CompressionError(f"unknown compression codec {codec}; there are 0 to {len(CODECS) - 1}")
    return codec


def _none_compress(data: bytes, level: int | None) -> bytes:
    return data


def _none_decompress(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise DecompressedTooLarge("uncompressed", limit)
    return data


# ---------------------------------------------------------------- gzip


def _gzip_compress(data: bytes, level: int | None) -> bytes:
    import zlib

    return zlib.compress(data, -1 if level is None else level, wbits=31)


def _gzip_decompress(data: bytes, limit: int) -> bytes:
    import zlib

    pieces = []
    left = limit
    while True:  # one round for each member
        stream = zlib.decompressobj(wbits=31)
        try:
            piece = stream.decompress(data, left + 1)
        except zlib.error as error:
            raise CompressionError(f"gzip records are corrupt: {error}") from None
        if len(piece) > left:
            raise DecompressedTooLarge("gzip", limit)
        if not stream.eof:
            raise CompressionError("gzip records are cut short")
        pieces.append(piece)
        left -= len(piece)
        data = stream.unused_data
        if not data:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# ---------------------------------------------------------------- snappy


def _snappy_compress(data: bytes, level: int | None) -> bytes:
    import cramjam

    blocks = [XERIAL_HEADER]
    for start in range(0, len(data), XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + XERIAL_BLOCK_BYTES]))
        blocks += (len(block).to_bytes(4, "big"), block)
    return b"".join(blocks)


def _snappy_decompress(data: bytes, limit: int) -> bytes:
    """Xerial's framing, as Java writes it, or one raw block, as other clients do."""
    if not data.startswith(XERIAL_MAGIC):
        return _snappy_block(data, limit, limit)
    blocks = []
    left = limit
    at = 0
    while at < len(data):
        if data.startswith(XERIAL_MAGIC, at):  # streams may follow one another
            at += len(XERIAL_HEADER)
            continue
        size = int.from_bytes(data[at : at + 4], "big")
        at += 4
        if size > len(data) - at:
            raise CompressionError("snappy records are cut short")
        blocks.append(_snappy_block(data[at : at + size], left, limit))
        left -= len(blocks[-1])
        at += size
    if at > len(data):
        raise CompressionError("snappy records are cut short")
    return b"".join(blocks)


def _snappy_block(block: bytes, left: int, limit: int) -> bytes:
    import cramjam

    if not block:
        raise CompressionError("snappy records are cut short")
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > left:
            raise DecompressedTooLarge("snappy", limit)
        # A byte of snappy stands for 64/3 bytes at most: an honest length is never far from that.
        if size > 24 * len(block) + 64:
            raise CompressionError("snappy records are corrupt: the length in front cannot be true")
        out = bytearray(size)
        if cramjam.snappy.decompress_raw_into(block, out) != size:
            raise CompressionError("snappy records are cut short")
    except cramjam.DecompressionError as error:
        raise CompressionError(f"snappy records are corrupt: {error}") from None
    return bytes(out)


# ---------------------------------------------------------------- lz4


def _lz4_compress(data: bytes, level: int | None) -> bytes:
    from lz4 import frame  # type: ignore[import-untyped]

    packed: bytes = frame.compress(
        data,
        compression_level=0 if level in (None, LZ4_FAST_LEVEL) else level,
        block_size=LZ4_BLOCK_64K,
        block_linked=False,  # Kafka refuses frames whose blocks depend on each other
        store_size=False,
    )
    return packed


def _lz4_decompress(data: bytes, limit: int) -> bytes:
    pieces = []
    left = limit
    while True:  # one round for each frame
        piece, data = _lz4_frame(data, left, limit)
        pieces.append(piece)
        left -= len(piece)
        if not data:
            return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _lz4_frame(data: bytes, left: int, limit: int) -> tuple[bytes, bytes]:
    """The content of the first frame, and what follows it."""
    from lz4 import frame

    try:
        if LZ4_RATIO_MAX * len(data) <= left:  # it cannot pass the bound: the call that is 5 times faster
            content, read = frame.decompress(data, return_bytes_read=True)
            return content, data[read:]
        stream = frame.LZ4FrameDecompressor()
        content = stream.decompress(data, max_length=left + 1)
    except RuntimeError as error:
        raise CompressionError(f"lz4 records are corrupt: {error}") from None
    if len(content) > left:
        raise DecompressedTooLarge("lz4", limit)
    if not stream.eof:
        raise CompressionError("lz4 records are cut short")
    return content, stream.unused_data or b""


# ---------------------------------------------------------------- zstd


def _zstd_compress(data: bytes, level: int | None) -> bytes:
    import cramjam

    return bytes(cramjam.zstd.compress(data, level=ZSTD_LEVEL if level is None else level))


def zstd_content_size(data: bytes) -> int | None:
    """What a frame's header says its content is long, or None (RFC 8878, section 3.1.1.1)."""
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


def _zstd_decompress(data: bytes, limit: int) -> bytes:
    """Into a buffer of the size the frame states, else of a guess that grows fourfold up to the limit."""
    import cramjam

    stated = zstd_content_size(data)
    if stated is not None and stated > limit:
        raise DecompressedTooLarge("zstd", limit)
    room = min(limit, max(8 * len(data), 64 * 1024) if stated is None else stated)
    while True:
        out = bytearray(room)
        try:
            return bytes(memoryview(out)[: cramjam.zstd.decompress_into(data, out)])
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CompressionError(f"zstd records are corrupt: {error}") from None
        if room >= limit:
            raise DecompressedTooLarge("zstd", limit)
        room = min(limit, 4 * room)


_COMPRESS: tuple[Callable[[bytes, int | None], bytes], ...] = (
    _none_compress,
    _gzip_compress,
    _snappy_compress,
    _lz4_compress,
    _zstd_compress,
)
_DECOMPRESS: tuple[Callable[[bytes, int], bytes], ...] = (
    _none_decompress,
    _gzip_decompress,
    _snappy_decompress,
    _lz4_decompress,
    _zstd_decompress,
)
