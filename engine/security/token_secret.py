"""Calculates the HMACs of delegation tokens, and the log-ins that they give (KIP-48)."""

import hmac
import time
from base64 import b64encode
from typing import Final

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ImageSource
from bowstring.engine.security.sasl_scram import TokenLogin
from bowstring.protocol.records.cluster_metadata.security import DelegationTokenRecord
from bowstring.security.scram import ScramCredential, ScramMechanism, new_credential

SECRET: Final = "delegation.token.secret.key"


def secret_of(configs: BrokerConfigs) -> bytes | None:
    """Returns the secret that makes tokens; None: there are no tokens."""
    text = configs.text(SECRET)
    return text.encode() if text else None


def token_hmac(secret: bytes, token_id: str) -> bytes:
    """Returns the HMAC of a token, which is its password."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def token_salt(secret: bytes, mechanism: ScramMechanism, token_id: str) -> bytes:
    """Returns the salt with which a token logs in: the same on all nodes, also for a token that is not there,
    so that it does not show which are.
    """
    return hmac.digest(secret, f"salt {mechanism.name} {token_id}".encode(), "sha256")[:16].hex().encode()


def is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Returns whether a token's life has ended."""
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def name_of(principal: str) -> str:
    """Returns the name in a principal such as ``User:alice``."""
    return principal.partition(":")[2]


class TokenLogins:
    """The log-ins of tokens with one mechanism. A credential is calculated once: it takes milliseconds."""

    def __init__(self, metadata: ImageSource, secret: bytes, mechanism: ScramMechanism) -> None:
        self._metadata = metadata
        self._secret = secret
        self._mechanism = mechanism
        self._credentials: dict[str, ScramCredential] = {}

    def find(self, token_id: str) -> TokenLogin | None:
        """Returns the log-in of a token; None if there is none, or its life has ended."""
        tokens = self._metadata.image.delegation_tokens.by_id
        token = tokens.get(token_id)
        if token is None or is_expired(token, time.time_ns() // 1_000_000):
            self._credentials.pop(token_id, None)
            return None
        credential = self._credentials.get(token_id)
        if credential is None:
            if len(self._credentials) > len(tokens):
                self._credentials = {
                    each: found for each, found in self._credentials.items() if each in tokens
                }
            password = b64encode(token_hmac(self._secret, token_id)).decode()
            salt = token_salt(self._secret, self._mechanism, token_id)
            credential = self._credentials[token_id] = new_credential(self._mechanism, password, salt=salt)
        expires_ms = min(token.expiration_timestamp, token.max_timestamp)
        return TokenLogin(credential, name_of(token.owner), expires_ms)
