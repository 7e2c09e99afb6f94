"""Makes the SCRAM credentials of names that have none, so that a log-in does not show which names exist.

A decoy follows from the credentials of two users, who are chosen by a hash of the name: one lends the form of
its salt and its number of iterations, and the keys of both make the salt. So all nodes send the same salt for
a name, also after a restart, and it changes as rarely as a salt of a user. A stranger has none of the keys,
and a user has only one of the two.
"""

import hashlib
import hmac
import secrets
from bisect import bisect
from typing import Final

from bowstring.engine.metadata.image import ImageSource
from bowstring.protocol.records.cluster_metadata.security import UserScramCredentialRecord
from bowstring.security.scram import DEFAULT_ITERATIONS, ScramCredential, ScramMechanism

_WITHOUT_USERS: Final = secrets.token_bytes(32)
"""Makes salts while no user has a credential: then there is nothing to hide."""

_HEX: Final = frozenset(b"0123456789abcdef")
_BASE_36: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"
_BASE_36_BITS: Final = 130
_BASE_36_LENGTHS: Final = range(22, 27)
"""Apache Kafka's salts are random numbers of 130 bits in base 36."""


class ScramDecoys:
    """The decoys of a mechanism.

    Args:
        metadata: Has the users.
        mechanism: The mechanism.
    """

    def __init__(self, metadata: ImageSource, mechanism: ScramMechanism) -> None:
        self._metadata = metadata
        self._mechanism = mechanism
        self._generation: object = None
        self._places: list[bytes] = []
        self._users: list[UserScramCredentialRecord] = []

    def of(self, name: str) -> ScramCredential:
        """Returns the decoy of a name. No password fits it."""
        scram = self._metadata.image.scram
        if scram.generation is not self._generation:
            self._generation = scram.generation
            number = self._mechanism.number
            users = [each[number] for each in scram.by_user.values() if number in each]
            placed = sorted((hashlib.sha256(each.stored_key).digest(), each.name, each) for each in users)
            self._places = [place for place, _, _ in placed]
            self._users = [each for _, _, each in placed]
        own = f"{self._mechanism.name} {name}".encode()
        if not self._users:
            salt = hmac.digest(_WITHOUT_USERS, own, "sha256")[:16].hex().encode()
            return self._impossible(salt, DEFAULT_ITERATIONS)
        place = bisect(self._places, hashlib.sha256(own).digest())
        lender, other = (self._users[(place + step) % len(self._users)] for step in (0, 1))
        seed = hmac.digest(bytes(lender.server_key) + bytes(other.server_key), own, "sha256")
        return self._impossible(_salt_like(bytes(lender.salt), seed), lender.iterations)

    def _impossible(self, salt: bytes, iterations: int) -> ScramCredential:
        key = secrets.token_bytes(self._mechanism.key_bytes)
        return ScramCredential(salt, key, key, iterations)


def _salt_like(salt: bytes, seed: bytes) -> bytes:
    """Returns a salt that could come from the same client as `salt`."""
    size = len(salt)
    if size % 2 == 0 and _HEX.issuperset(salt):
        return hashlib.shake_256(seed).hexdigest(size // 2).encode()
    if size in _BASE_36_LENGTHS and all(each in _BASE_36 for each in salt):
        number = int.from_bytes(hashlib.shake_256(seed).digest(32), "big") >> 256 - _BASE_36_BITS
        digits = bytearray()
        while number:
            number, digit = divmod(number, 36)
            digits.append(_BASE_36[digit])
        return bytes(reversed(digits))
    return hashlib.shake_256(seed).digest(size)
