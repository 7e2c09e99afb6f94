"""The file of a pool of staged tails (_native/disk/tail_pool.pyx) in the images of a simulated disk.

Its headers name files by their inodes, and a file that a test writes anew has another inode. So an image has
the place of the file among its paths there, and `put_staged` writes the new inode. Nothing else changes: a
header with a wrong CRC keeps it.
"""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

from bowstring._native.base.crc import crc32c
from bowstring.engine.storage.staged_tails import TAILS_FILE
from tests.simulation.disk.disk import put_tree

BOOT_PAGE_BYTES = 4096
HEADER_BYTES = 512
SLAB_BYTES = 256 << 10
SLAB_UNITS = 16
UNIT_BYTES = SLAB_BYTES // SLAB_UNITS
# length, magic, CRC; the CRC covers the rest: inode, position, base offset, name
HEADER = struct.Struct("<qII")
FIELDS = struct.Struct("<qqq384s")
CRC_FROM = HEADER.size
MAGIC = 0x4C494154
NOBODYS_INODE = 1 << 60
OTHER_BOOT = b"00000000-0000-0000-0000-000000000000"

Image = dict[str, bytes | None]


def headers_of(pool: bytes) -> Iterator[int]:
    """Returns the positions of a pool's headers."""
    slabs = (len(pool) - BOOT_PAGE_BYTES) // (SLAB_UNITS * HEADER_BYTES + SLAB_BYTES)
    for i in range(max(0, slabs) * SLAB_UNITS):
        yield BOOT_PAGE_BYTES + i * HEADER_BYTES


def data_at(pool: bytes, header: int) -> int:
    """Returns where the bytes of the chunk with this header begin."""
    slabs = (len(pool) - BOOT_PAGE_BYTES) // (SLAB_UNITS * HEADER_BYTES + SLAB_BYTES)
    unit = (header - BOOT_PAGE_BYTES) // HEADER_BYTES
    return BOOT_PAGE_BYTES + slabs * SLAB_UNITS * HEADER_BYTES + unit * UNIT_BYTES


def header_crc(pool: bytes | bytearray, header: int) -> int:
    """The CRC that a header should have."""
    return crc32c(bytes(pool[header + CRC_FROM : header + CRC_FROM + FIELDS.size]))


def with_inodes(pool: bytes, numbers: Mapping[int, int]) -> bytes:
    """Returns the pool with other inodes in its headers; those without a number belong to no file."""
    changed = bytearray(pool)
    for header in headers_of(pool):
        _, magic, crc = HEADER.unpack_from(pool, header)
        inode = struct.unpack_from("<q", pool, header + CRC_FROM)[0]
        if magic != MAGIC or inode == 0:
            continue
        is_whole = crc == header_crc(pool, header)
        struct.pack_into("<q", changed, header + CRC_FROM, numbers.get(inode, NOBODYS_INODE))
        if is_whole:
            struct.pack_into("<I", changed, header + CRC_FROM - 4, header_crc(changed, header))
    return bytes(changed)


def placed(image: Image, inodes: Mapping[int, str], path: str = TAILS_FILE) -> Image:
    """Returns an image whose pool names files by their places; `inodes` maps files of the image to inodes."""
    pool = image.get(path)
    if not pool:
        return image
    places = {name: number for number, name in enumerate(sorted(image), 1)}
    return image | {path: with_inodes(pool, {inode: places[name] for inode, name in inodes.items()})}


def put_staged(root: Path, image: Image, *, same_boot: bool, path: str = TAILS_FILE) -> None:
    """Writes an image of `placed` to an empty directory.

    Args:
        same_boot: The system still runs. After a power cut there is another boot id.
    """
    put_tree(root, image)
    settle_staged(root, image, same_boot=same_boot, path=path)


def settle_staged(root: Path, image: Image, *, same_boot: bool, path: str = TAILS_FILE) -> None:
    """Does so for the pool of an image whose files are written already."""
    pool = image.get(path)
    if not pool:
        return
    numbers = {number: (root / name).stat().st_ino for number, name in enumerate(sorted(image), 1)}
    pool = with_inodes(pool, numbers)
    if not same_boot and pool[: len(OTHER_BOOT)].strip(b"\0"):
        pool = OTHER_BOOT + pool[len(OTHER_BOOT) :]
    (root / path).write_bytes(pool)
