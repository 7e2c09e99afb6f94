"""The cleaner's table of keys: its hash against a plain one, its answers against a dict, its bounds."""

import random

import pytest

from bowstring._native.cleaner.offset_map import OffsetMap, siphash128

MASK = (1 << 64) - 1


def rotl(v: int, n: int) -> int:
    return (v << n | v >> 64 - n) & MASK


def sip_round(v: list[int]) -> None:
    for a, b, c, d, first, second in ((0, 1, 2, 3, 13, 16), (2, 1, 0, 3, 17, 21)):
        v[a], v[c] = (v[a] + v[b]) & MASK, (v[c] + v[d]) & MASK
        v[b], v[d] = rotl(v[b], first) ^ v[a], rotl(v[d], second) ^ v[c]
        v[a] = rotl(v[a], 32)


def siphash(key: bytes, secret: bytes, rounds: int, last_rounds: int) -> bytes:
    """SipHash with 128 bits of output, as in the paper."""
    k = [int.from_bytes(secret[i : i + 8], "little") for i in (0, 8)]
    v = [
        k[i & 1] ^ int.from_bytes(b"somepseudorandomlygeneratedbytes"[8 * i : 8 * i + 8], "big")
        for i in range(4)
    ]
    v[1] ^= 0xEE
    padded = key + bytes(7 - len(key) % 8) + bytes([len(key) & 255])
    for i in range(0, len(padded), 8):
        word = int.from_bytes(padded[i : i + 8], "little")
        v[3] ^= word
        for _ in range(rounds):
            sip_round(v)
        v[0] ^= word
    out = b""
    for index, tweak in ((2, 0xEE), (1, 0xDD)):
        v[index] ^= tweak
        for _ in range(last_rounds):
            sip_round(v)
        out += (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
    return out


def test_the_plain_hash_gives_the_papers_vectors():
    secret = bytes(range(16))
    assert siphash(b"", secret, 2, 4).hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash(bytes(range(15)), secret, 2, 4).hex() == "5493e99933b0a8117e08ec0f97cfc3d9"


@pytest.mark.parametrize("size", [*range(40), 255, 256, 1000])
def test_the_hash_is_siphash_1_3(size):
    rng = random.Random(size)
    key, secret = rng.randbytes(size), rng.randbytes(16)
    assert siphash128(key, secret) == siphash(key, secret, 1, 3)


def test_answers_as_a_dict_does():
    rng = random.Random(4)
    table, model = OffsetMap(1 << 20), {}
    for offset in range(60_000):
        key = b"%d" % rng.randrange(20_000)
        assert table.put(key, offset)
        model[key] = offset
    assert len(table) == len(model)
    for i in range(25_000):
        assert table.get(b"%d" % i) == model.get(b"%d" % i, -1)


def test_takes_as_many_keys_as_the_load_factor_allows():
    table = OffsetMap(24 * 1000, 0.9)
    assert table.capacity == 900
    assert all(table.put(b"%d" % i, i) for i in range(900))
    assert not table.put(b"another", 900)
    assert table.put(b"7", 901) and table.get(b"7") == 901 and table.get(b"another") == -1


def test_is_no_larger_than_the_keys_that_can_come():
    assert OffsetMap(1 << 30, 0.5, 100).capacity < 110
    assert OffsetMap(1, 0.9).capacity == 1  # the least there can be


def test_every_table_has_a_secret_of_its_own():
    with pytest.raises(ValueError, match="16 bytes"):
        siphash128(b"key", b"short")
