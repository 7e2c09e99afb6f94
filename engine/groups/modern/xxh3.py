"""Computes XXH3, with which Kafka hashes the metadata of a group's topics.

In Python, because hashes are kept: one is computed when a topic changes, and takes about 0.3 µs a byte.
"""

import struct
from typing import Final

_MASK: Final = (1 << 64) - 1
_PRIME32_1: Final = 0x9E3779B1
_PRIME32_2: Final = 0x85EBCA77
_PRIME32_3: Final = 0xC2B2AE3D
_PRIME64_1: Final = 0x9E3779B185EBCA87
_PRIME64_2: Final = 0xC2B2AE3D27D4EB4F
_PRIME64_3: Final = 0x165667B19E3779F9
_PRIME64_4: Final = 0x85EBCA77C2B2AE63
_PRIME64_5: Final = 0x27D4EB2F165667C5
_PRIME_MX1: Final = 0x165667919E3779F9
_PRIME_MX2: Final = 0x9FB21C651E98DF25
_SECRET: Final = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_STRIPE_BYTES: Final = 64
_LANES: Final = struct.Struct("<8Q")
# A stripe uses the secret from 8 bytes further than the one before it.
_STRIPE_SECRETS: Final = tuple(_LANES.unpack_from(_SECRET, 8 * index) for index in range(17))
_STRIPES_IN_BLOCK: Final = 16
_SCRAMBLE_SECRET: Final = _STRIPE_SECRETS[16]
_LAST_SECRET: Final = _LANES.unpack_from(_SECRET, 192 - _STRIPE_BYTES - 7)
_ACCUMULATORS: Final = (
    *(_PRIME32_3, _PRIME64_1, _PRIME64_2, _PRIME64_3),
    *(_PRIME64_4, _PRIME32_2, _PRIME64_5, _PRIME32_1),
)


def xxh3_64(data: bytes) -> int:
    """Returns XXH3_64bits of `data` with seed 0, unsigned."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    if size <= 240:
        return _middle(data, size)
    return _long(data, size)


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _fold(left: int, right: int) -> int:
    product = left * right
    return (product & _MASK) ^ (product >> 64)


def _avalanche(value: int) -> int:
    value = ((value ^ (value >> 37)) * _PRIME_MX1) & _MASK
    return value ^ (value >> 32)


def _avalanche64(value: int) -> int:
    value = ((value ^ (value >> 33)) * _PRIME64_2) & _MASK
    value = ((value ^ (value >> 29)) * _PRIME64_3) & _MASK
    return value ^ (value >> 32)


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ (_u64(_SECRET, 24) ^ _u64(_SECRET, 32))
        high = _u64(data, size - 8) ^ (_u64(_SECRET, 40) ^ _u64(_SECRET, 48))
        swapped = int.from_bytes(low.to_bytes(8, "little"), "big")
        return _avalanche((size + swapped + high + _fold(low, high)) & _MASK)
    if size >= 4:
        value = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ (_u64(_SECRET, 8) ^ _u64(_SECRET, 16))
        value ^= _rotated(value, 49) ^ _rotated(value, 24)
        value = (value * _PRIME_MX2) & _MASK
        value ^= (value >> 35) + size
        value = (value * _PRIME_MX2) & _MASK
        return value ^ (value >> 28)
    if size:
        value = (data[0] << 16) | (data[size >> 1] << 24) | data[size - 1] | (size << 8)
        return _avalanche64(value ^ (_u32(_SECRET, 0) ^ _u32(_SECRET, 4)))
    return _avalanche64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _mixed(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def _middle(data: bytes, size: int) -> int:
    total = size * _PRIME64_1
    if size <= 128:
        for index in range((size - 1) // 32 + 1):
            total += _mixed(data, 16 * index, 32 * index)
            total += _mixed(data, size - 16 * (index + 1), 32 * index + 16)
        return _avalanche(total & _MASK)
    for index in range(8):
        total += _mixed(data, 16 * index, 16 * index)
    total = _avalanche(total & _MASK)
    for index in range(8, size // 16):
        total += _mixed(data, 16 * index, 16 * (index - 8) + 3)
    total += _mixed(data, size - 16, 136 - 17)
    return _avalanche(total & _MASK)


def _accumulate(lanes: list[int], stripe: tuple[int, ...], secret: tuple[int, ...]) -> None:
    for index in range(8):
        value = stripe[index]
        keyed = value ^ secret[index]
        lanes[index ^ 1] += value
        lanes[index] += (keyed & 0xFFFFFFFF) * (keyed >> 32)


def _long(data: bytes, size: int) -> int:
    lanes = list(_ACCUMULATORS)
    stripes = (size - 1) // _STRIPE_BYTES
    for number in range(stripes):
        in_block = number % _STRIPES_IN_BLOCK
        _accumulate(lanes, _LANES.unpack_from(data, number * _STRIPE_BYTES), _STRIPE_SECRETS[in_block])
        if in_block == _STRIPES_IN_BLOCK - 1:
            for index in range(8):
                lane = lanes[index] & _MASK
                lanes[index] = ((lane ^ (lane >> 47) ^ _SCRAMBLE_SECRET[index]) * _PRIME32_1) & _MASK
    _accumulate(lanes, _LANES.unpack_from(data, size - _STRIPE_BYTES), _LAST_SECRET)
    total = size * _PRIME64_1
    for index in range(4):
        total += _fold(
            (lanes[2 * index] & _MASK) ^ _u64(_SECRET, 11 + 16 * index),
            (lanes[2 * index + 1] & _MASK) ^ _u64(_SECRET, 19 + 16 * index),
        )
    return _avalanche(total & _MASK)
