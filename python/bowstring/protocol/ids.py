"""Converts Kafka's 16-byte ids (topics, directories, members): bytes in memory, URL-safe base64 as text."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable

ZERO_UUID = bytes(16)
"""The zero id: no id."""

METADATA_TOPIC_ID = bytes(15) + b"\x01"
"""The id of __cluster_metadata (KIP-595)."""

_TEXT = re.compile(r"[A-Za-z0-9_-]{22}(==)?")

_RESERVED_HIGHEST = 100
"""Kafka reserves the ids 0 to 100, such as 1 for the metadata topic (KIP-595)."""


def format_uuid(value: bytes) -> str:
    """Returns the 22 characters that Kafka prints, such as ``AAAAAAAAAAAAAAAAAAAAAA`` for the zero id.

    Raises:
        ValueError: `value` does not have 16 bytes.
    """
    if len(value) != 16:
        raise ValueError(f"an id has 16 bytes, this one has {len(value)}")
    return base64.urlsafe_b64encode(value)[:22].decode("ascii")


def parse_uuid(text: str) -> bytes:
    """Returns the id that `text` encodes.

    Raises:
        ValueError: `text` is not the base64 of 16 bytes.
    """
    # binascii also accepts the standard alphabet's + and /, Kafka does not.
    if not _TEXT.fullmatch(text):
        raise ValueError(f"{text!r} is not a Kafka id: it must be 22 characters of URL-safe base64")
    return base64.urlsafe_b64decode(text[:22] + "==")


def random_uuid(random_bytes: Callable[[int], bytes] = os.urandom) -> bytes:
    """Returns a random (version 4) id like Kafka's: no reserved id, and none whose text begins with a dash,
    which command lines would parse as an option.
    """
    while True:
        value = bytearray(random_bytes(16))
        value[6] = value[6] & 0x0F | 0x40
        value[8] = value[8] & 0x3F | 0x80
        if int.from_bytes(value, "big") > _RESERVED_HIGHEST and format_uuid(bytes(value))[0] != "-":
            return bytes(value)
