"""Implements Admin's methods for users that log in with SCRAM (KIP-554)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import IntEnum

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.admin.members import member
from bowstring.clients.errors import BrokerError, ConfigError, broker_error
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bowstring.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

# Brokers refuse fewer, and more.
ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
SALT_BYTES = 24


class ScramMechanism(IntEnum):
    """How a user logs in; the names of SASL have hyphens: SCRAM-SHA-512."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name in `sasl.mechanism`."""
        return self.name.replace("_", "-")


_HASHES = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """What brokers show of a credential; neither password nor salt can be read.

    Args:
        mechanism: the mechanism, or its name: "SCRAM-SHA-512".
        iterations: of the hash.

    Raises:
        ConfigError: there is no such mechanism.
    """

    mechanism: ScramMechanism
    iterations: int = ITERATIONS_MIN

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", member(ScramMechanism, self.mechanism))


@dataclass(frozen=True, slots=True)
class UserScramCredentialUpsertion:
    """A password to set. It stays here: brokers get its salted hash. `repr` does not show it.

    Args:
        user: name of the user.
        scram_credential_info: mechanism and iterations, 4,096 to 16,384.
        password: the password.
        salt: random bytes; by default new ones.

    Raises:
        ConfigError: the user or password is empty, or the iterations are out of range.
    """

    user: str
    scram_credential_info: ScramCredentialInfo
    password: str | bytes = field(repr=False)
    salt: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        iterations = self.scram_credential_info.iterations
        if not self.user or not self.password:
            raise ConfigError("user and password of a UserScramCredentialUpsertion may not be empty")
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ConfigError(f"iterations are {ITERATIONS_MIN} to {ITERATIONS_MAX}, not {iterations}")


@dataclass(frozen=True, slots=True)
class UserScramCredentialDeletion:
    """A credential to delete.

    Args:
        user: name of the user.
        mechanism: which of its credentials; or its name: "SCRAM-SHA-512".

    Raises:
        ConfigError: there is no such mechanism.
    """

    user: str
    mechanism: ScramMechanism

    def __post_init__(self) -> None:
        object.__setattr__(self, "mechanism", member(ScramMechanism, self.mechanism))


def _upsertion(wanted: UserScramCredentialUpsertion) -> ScramCredentialUpsertion:
    """Salts and hashes a password (RFC 5802: SaltedPassword). Takes milliseconds."""
    info = wanted.scram_credential_info
    salt = wanted.salt or os.urandom(SALT_BYTES)
    password = wanted.password.encode() if isinstance(wanted.password, str) else wanted.password
    return ScramCredentialUpsertion(
        name=wanted.user,
        mechanism=int(info.mechanism),
        iterations=info.iterations,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(_HASHES[info.mechanism], password, salt, info.iterations),
    )


class AdminScramUsers(AdminCalls):
    """Mixed into Admin."""

    def describe_user_scram_credentials(
        self, users: Iterable[str] | None = None
    ) -> dict[str, list[ScramCredentialInfo]]:
        """Returns the SCRAM credentials of users by name, without users that have none.

        Args:
            users: names; None for all.

        Raises:
            BrokerError: CLUSTER_AUTHORIZATION_FAILED.
        """
        names = None if users is None else [UserName(name=each) for each in users]
        request = DescribeUserScramCredentialsRequest(users=names)
        response = self._call(self._any_node, DescribeUserScramCredentialsRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "describing users", response.error_message)
        found = {}
        for result in sorted(response.results, key=lambda each: each.user):
            if result.error_code == Errors.RESOURCE_NOT_FOUND.code:
                continue
            if result.error_code:
                raise broker_error(
                    result.error_code, f"describing user {result.user!r}", result.error_message
                )
            found[result.user] = [
                ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations)
                for each in result.credential_infos
            ]
        return found

    def alter_user_scram_credentials(
        self, alterations: Iterable[UserScramCredentialUpsertion | UserScramCredentialDeletion]
    ) -> None:
        """Sets and deletes SCRAM credentials of users.

        Args:
            alterations: at most one for each user.

        Raises:
            BrokerError: the first refusal; credentials of other users are changed. RESOURCE_NOT_FOUND: there
                is no credential to delete.
        """
        wanted = list(alterations)
        request = AlterUserScramCredentialsRequest(
            deletions=[
                ScramCredentialDeletion(name=each.user, mechanism=int(each.mechanism))
                for each in wanted
                if isinstance(each, UserScramCredentialDeletion)
            ],
            upsertions=[
                _upsertion(each) for each in wanted if isinstance(each, UserScramCredentialUpsertion)
            ],
        )
        response = self._to_controller(AlterUserScramCredentialsRequest, request)
        errors: list[BrokerError] = [
            broker_error(each.error_code, f"changing user {each.user!r}", each.error_message)
            for each in response.results
            if each.error_code
        ]
        if errors:
            raise errors[0]
