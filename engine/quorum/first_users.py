"""Reads the users that formatting puts into the first metadata (KIP-900)."""

import base64
import binascii
import os
import re
from typing import Final

from bowstring.engine.configs import ConfigError
from bowstring.protocol.records.cluster_metadata.security import UserScramCredentialRecord
from bowstring.protocol.whole_numbers import whole_number
from bowstring.security.scram import DEFAULT_ITERATIONS, MAX_ITERATIONS, SCRAM_MECHANISMS

_FORM: Final = re.compile(r"(?P<mechanism>[\w-]+)=\[(?P<parts>.*)\]", re.DOTALL)
_PART: Final = re.compile(r"(name|password|salt|iterations|saltedpassword)=(.*)", re.DOTALL)
_EXAMPLE: Final = "SCRAM-SHA-512=[name=alice,password=…]"
_SALT_BYTES: Final = 24


def first_user(text: str) -> UserScramCredentialRecord:
    """Returns the credential that a text describes, as Kafka's storage tool reads it.

    Args:
        text: ``SCRAM-SHA-256=[name=alice,password=secret]``; with ``iterations=``, or, not password but
            ``salt=`` and ``saltedpassword=`` in base64, if wanted.

    Raises:
        ConfigError: It is malformed; the message has no password.
    """
    found = _FORM.fullmatch(text.strip())
    mechanism = SCRAM_MECHANISMS.get(found["mechanism"]) if found else None
    if found is None or mechanism is None:
        raise ConfigError(f"--add-scram: write {_EXAMPLE}, with {' or '.join(SCRAM_MECHANISMS)}")
    parts = {}
    # A comma inside of a password belongs to it: a part begins with its name.
    for part in re.split(r",(?=(?:name|password|salt|iterations|saltedpassword)=)", found["parts"]):
        match = _PART.fullmatch(part.strip())
        if match is None or match[1] in parts:
            raise ConfigError(f"--add-scram: a part is unknown, or given twice; write {_EXAMPLE}")
        parts[match[1]] = _unquoted(match[2])
    name = parts.get("name")
    if not name or ("password" in parts) == ("saltedpassword" in parts):
        raise ConfigError(f"--add-scram: give name, and one of password and saltedpassword: {_EXAMPLE}")
    if "saltedpassword" in parts and "salt" not in parts:
        raise ConfigError("--add-scram: give salt= with saltedpassword=")
    iterations = _iterations(parts.get("iterations"), mechanism.min_iterations)
    salt = _bytes("salt", parts["salt"]) if "salt" in parts else os.urandom(_SALT_BYTES)
    if "password" in parts:
        salted = mechanism.salted_password(parts["password"], salt, iterations)
    else:
        salted = _bytes("saltedpassword", parts["saltedpassword"])
    made = mechanism.credential(salt, salted, iterations)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=made.salt,
        stored_key=made.stored_key,
        server_key=made.server_key,
        iterations=made.iterations,
    )


def _iterations(text: str | None, least: int) -> int:
    if text is None:
        return DEFAULT_ITERATIONS
    iterations = whole_number(text, MAX_ITERATIONS)
    if iterations is None or iterations < least:
        raise ConfigError(f"--add-scram: iterations are {least} to {MAX_ITERATIONS}")
    return iterations


def _bytes(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"--add-scram: {name} is not base64") from None


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] == '"'
    return value[1:-1] if quoted else value
