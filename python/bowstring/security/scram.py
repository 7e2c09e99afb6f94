"""Calculates and parses what SCRAM exchanges (RFC 5802, RFC 7677), for both sides.

Names and passwords are UTF-8 without SASLprep, as in Kafka.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from typing import Final, NamedTuple

DEFAULT_ITERATIONS: Final = 4096
MAX_ITERATIONS: Final = 16384
"""Most that Kafka accepts for a credential."""

TOKEN_AUTHENTICATION: Final = "tokenauth"
"""Extension of the first message: the name is the id of a delegation token (KIP-48)."""

_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_NAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|[^\x00-\x7f]|=2C|=3D)+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED: Final = f"(?:m={_VALUE},)?"
_EXTENSIONS: Final = f"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<header>n,(?:a=(?P<authorization>{_NAME}))?,)"
    rf"(?P<bare>{_RESERVED}n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_SERVER_FIRST: Final = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<bare>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FINAL: Final = re.compile(
    rf"(?:e=(?P<error>[^\x00,=]+)|v=(?P<signature>{_BASE64})){_EXTENSIONS}", re.DOTALL
)


class ScramError(ValueError):
    """A message is malformed, or the other side does not have the password. Shows no part of a message."""


class ScramMechanism(NamedTuple):
    """One of the mechanisms.

    Attributes:
        name: As SASL calls it.
        number: Its number in records and requests.
        hash: The hash function, as hashlib calls it.
        min_iterations: Fewest that Kafka accepts.
    """

    name: str
    number: int
    hash: str
    min_iterations: int = 4096

    @property
    def key_bytes(self) -> int:
        """Size of a key."""
        return hashlib.new(self.hash).digest_size

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Returns the salted password. Takes milliseconds, without the GIL."""
        return hashlib.pbkdf2_hmac(self.hash, password.encode(), salt, iterations)

    def credential(self, salt: bytes, salted_password: bytes, iterations: int) -> "ScramCredential":
        """Returns the credential of a salted password."""
        client_key = hmac.digest(salted_password, b"Client Key", self.hash)
        return ScramCredential(
            salt,
            hashlib.new(self.hash, client_key).digest(),
            hmac.digest(salted_password, b"Server Key", self.hash),
            iterations,
        )


SCRAM_SHA_256: Final = ScramMechanism("SCRAM-SHA-256", 1, "sha256")
SCRAM_SHA_512: Final = ScramMechanism("SCRAM-SHA-512", 2, "sha512")
SCRAM_MECHANISMS: Final = {each.name: each for each in (SCRAM_SHA_256, SCRAM_SHA_512)}
SCRAM_BY_NUMBER: Final = {each.number: each for each in SCRAM_MECHANISMS.values()}


class ScramCredential:
    """What a server has of a password. Its representation shows no keys.

    Attributes:
        salt: Random bytes.
        stored_key: Hash of the client's key.
        server_key: Proves the server.
        iterations: Rounds of the hash.
    """

    __slots__ = ("iterations", "salt", "server_key", "stored_key")

    def __init__(self, salt: bytes, stored_key: bytes, server_key: bytes, iterations: int) -> None:
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScramCredential) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    def __hash__(self) -> int:
        return hash((self.salt, self.stored_key, self.server_key, self.iterations))

    def __repr__(self) -> str:
        return f"ScramCredential({self.iterations} iterations)"


def new_salt() -> bytes:
    """Returns a random salt."""
    return secrets.token_hex(16).encode()


def new_nonce() -> str:
    """Returns a random nonce."""
    return secrets.token_hex(16)


def new_credential(
    mechanism: ScramMechanism,
    password: str,
    *,
    iterations: int = DEFAULT_ITERATIONS,
    salt: bytes | None = None,
) -> ScramCredential:
    """Returns a credential of a password. Takes milliseconds."""
    salt = new_salt() if salt is None else salt
    return mechanism.credential(salt, mechanism.salted_password(password, salt, iterations), iterations)


def sasl_name(name: str) -> str:
    """Returns a name as messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")


class ClientFirst(NamedTuple):
    """A client's first message, parsed."""

    header: str
    bare: str
    name: str
    authorization: str
    nonce: str
    token_authenticated: bool


def parse_client_first(data: bytes) -> ClientFirst:
    """Parses a client's first message.

    Raises:
        ScramError: It is malformed.
    """
    found = _CLIENT_FIRST.fullmatch(data.decode("utf-8", "replace"))
    if found is None:
        raise ScramError("the client's first SCRAM message is malformed")
    extensions = dict(each.split("=", 1) for each in found["extensions"].split(",")[1:])
    return ClientFirst(
        found["header"],
        found["bare"],
        _plain(found["name"]),
        _plain(found["authorization"] or ""),
        found["nonce"],
        extensions.get(TOKEN_AUTHENTICATION, "").lower() == "true",
    )


def _plain(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


class ClientFinal(NamedTuple):
    """A client's last message, parsed."""

    bare: str
    channel: bytes
    nonce: str
    proof: bytes


def parse_client_final(data: bytes) -> ClientFinal:
    """Parses a client's last message.

    Raises:
        ScramError: It is malformed.
    """
    found = _CLIENT_FINAL.fullmatch(data.decode("utf-8", "replace"))
    if found is None:
        raise ScramError("the client's last SCRAM message is malformed")
    return ClientFinal(found["bare"], b64decode(found["channel"]), found["nonce"], b64decode(found["proof"]))


def server_first(nonce: str, credential: ScramCredential) -> str:
    """Returns a server's first message; `nonce` is the client's followed by the server's."""
    return f"r={nonce},s={b64encode(credential.salt).decode()},i={credential.iterations}"


def is_proof(mechanism: ScramMechanism, credential: ScramCredential, proof: bytes, messages: str) -> bool:
    """Returns whether a client that sent `proof` has the password.

    Args:
        messages: The first messages and the last one without its proof, separated by commas.
    """
    signature = hmac.digest(credential.stored_key, messages.encode(), mechanism.hash)
    if len(proof) != len(signature):
        return False
    client_key = _xor(proof, signature)
    return hmac.compare_digest(hashlib.new(mechanism.hash, client_key).digest(), credential.stored_key)


def server_final(mechanism: ScramMechanism, credential: ScramCredential, messages: str) -> bytes:
    """Returns a server's last message, which proves that the server has the credential."""
    signature = hmac.digest(credential.server_key, messages.encode(), mechanism.hash)
    return b"v=" + b64encode(signature)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


class ScramClient:
    """The client's side of one exchange: `first`, `final`, `verify` in this order.

    Args:
        mechanism: The mechanism.
        name: The user's, or the id of a delegation token.
        password: The user's, or the token's HMAC in Base64.
        token: The name is that of a delegation token.
        nonce: For tests.
        max_iterations: A server with more is refused, because it could keep the client busy.
    """

    def __init__(
        self,
        mechanism: ScramMechanism,
        name: str,
        password: str,
        *,
        token: bool = False,
        nonce: str | None = None,
        max_iterations: int = 1_000_000,
    ) -> None:
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce or new_nonce()
        self._bare = f"n={sasl_name(name)},r={self._nonce}"
        if token:
            self._bare += f",{TOKEN_AUTHENTICATION}=true"
        self._max_iterations = max_iterations
        self._signature = b""

    def __repr__(self) -> str:
        return f"ScramClient({self._mechanism.name})"

    def first(self) -> bytes:
        """Returns the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Returns the last message, with the proof. Takes milliseconds.

        Raises:
            ScramError: The server's first message is malformed, or has too few or too many iterations.
        """
        text = challenge.decode("utf-8", "replace")
        found = _SERVER_FIRST.fullmatch(text)
        if found is None:
            raise ScramError("the server's first SCRAM message is malformed")
        nonce, iterations = found["nonce"], int(found["iterations"])
        if not nonce.startswith(self._nonce) or len(nonce) == len(self._nonce):
            raise ScramError("the server's SCRAM message belongs to another exchange")
        if not self._mechanism.min_iterations <= iterations <= self._max_iterations:
            raise ScramError(
                f"the server requires {iterations} iterations of {self._mechanism.name}; "
                f"{self._mechanism.min_iterations} to {self._max_iterations} are allowed"
            )
        salted = self._mechanism.salted_password(self._password, b64decode(found["salt"]), iterations)
        bare = f"c=biws,r={nonce}"
        messages = f"{self._bare},{text},{bare}".encode()
        hash_name = self._mechanism.hash
        client_key = hmac.digest(salted, b"Client Key", hash_name)
        stored_key = hashlib.new(hash_name, client_key).digest()
        proof = _xor(client_key, hmac.digest(stored_key, messages, hash_name))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), messages, hash_name)
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def verify(self, challenge: bytes) -> None:
        """Checks the server's last message.

        Raises:
            ScramError: The server does not have the credential, or refuses the client.
        """
        found = _SERVER_FINAL.fullmatch(challenge.decode("utf-8", "replace"))
        if found is None:
            raise ScramError("the server's last SCRAM message is malformed")
        if found["error"]:
            raise ScramError("the server refuses the name or the password")
        if not self._signature or not hmac.compare_digest(b64decode(found["signature"]), self._signature):
            raise ScramError("the server does not prove that it has the user's credential")
