"""Implements Admin's methods for delegation tokens (KIP-48)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bowstring.clients.admin.calls import AdminCalls
from bowstring.clients.errors import ConfigError, broker_error
from bowstring.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from bowstring.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from bowstring.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from bowstring.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

# From this version on, one principal may request a token of another (KIP-373).
OWNER_VERSION = 3


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token, with which a client logs in as its owner by SCRAM: `token_id` is the user, `password` the
    password, and the JAAS line has `tokenauth="true"`.

    Attributes:
        token_id: its id.
        owner: principal that it stands for, such as `User:alice`.
        requester: principal that has created it.
        issue_timestamp_ms, expiry_timestamp_ms, max_timestamp_ms: when it begins, when it ends unless it is
            renewed, and when it ends in any case; milliseconds since the epoch.
        renewers: principals that may renew it, beside the owner.
        hmac: the secret; `repr` does not show it.
    """

    token_id: str
    owner: str
    requester: str
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int
    renewers: tuple[str, ...] = ()
    hmac: bytes = field(default=b"", repr=False)

    @property
    def password(self) -> str:
        """The secret as clients log in with it: the HMAC in base64."""
        return b64encode(self.hmac).decode()


class AdminDelegationTokens(AdminCalls):
    """Mixed into Admin."""

    def create_delegation_token(
        self, *, owner: str | None = None, renewers: Iterable[str] = (), max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """Creates a token of the client's own principal, or of `owner`. The client has logged in with SASL or
        a certificate; a token creates no tokens.

        Args:
            owner: principal that the token stands for, such as `User:alice`; None: that of the client.
            renewers: principals that may renew it, beside the owner.
            max_lifetime_ms: milliseconds until it ends in any case; -1: the broker's
                delegation.token.max.lifetime.ms.

        Raises:
            ConfigError: a principal is not `Type:name`.
            BrokerError: the broker has no delegation.token.secret.key, or refuses.
        """
        principal = None if owner is None else _parts(owner)
        wanted = [_parts(each) for each in renewers]

        def request(version: int) -> CreateDelegationTokenRequest:
            if principal is not None and version < OWNER_VERSION:
                raise ConfigError("owner: these brokers create tokens of the client's own principal only")
            made = CreateDelegationTokenRequest(
                renewers=[
                    CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in wanted
                ],
                max_lifetime_ms=max_lifetime_ms,
            )
            if version >= OWNER_VERSION:
                made.owner_principal_type, made.owner_principal_name = principal or (None, None)
            return made

        answer = self._to_controller(CreateDelegationTokenRequest, request)
        if answer.error_code:
            raise broker_error(answer.error_code, "creating a delegation token")
        owner = f"{answer.principal_type}:{answer.principal_name}"
        requester = answer.token_requester_principal_name
        return DelegationToken(
            answer.token_id,
            owner,
            f"{answer.token_requester_principal_type}:{requester}" if requester else owner,
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            tuple(f"{kind}:{name}" for kind, name in wanted),
            answer.hmac,
        )

    def renew_delegation_token(self, hmac: bytes, *, renew_period_ms: int = -1) -> int:
        """Moves the end of a token; returns it in milliseconds since the epoch.

        Args:
            hmac: the token's secret.
            renew_period_ms: milliseconds from now; -1: the broker's delegation.token.expiry.time.ms.

        Raises:
            BrokerError: the token is unknown or has ended, or the principal may not renew it.
        """
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms)
        answer = self._to_controller(RenewDelegationTokenRequest, request)
        if answer.error_code:
            raise broker_error(answer.error_code, "renewing a delegation token")
        return int(answer.expiry_timestamp_ms)

    def expire_delegation_token(self, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
        """Ends a token; returns when, in milliseconds since the epoch.

        Args:
            hmac: the token's secret.
            expiry_time_period_ms: milliseconds from now; -1: at once.

        Raises:
            BrokerError: the token is unknown, or the principal may not end it.
        """
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms)
        answer = self._to_controller(ExpireDelegationTokenRequest, request)
        if answer.error_code:
            raise broker_error(answer.error_code, "ending a delegation token")
        return int(answer.expiry_timestamp_ms)

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """Returns tokens that the client's principal may see, by id.

        Args:
            owners: principals that they stand for, or that may renew them; None for all.

        Raises:
            ConfigError: a principal is not `Type:name`.
            BrokerError: the broker refuses.
        """
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_parts, owners)
            ]
        request = DescribeDelegationTokenRequest(owners=wanted)
        response = self._call(self._any_node, DescribeDelegationTokenRequest, request)
        if response.error_code:
            raise broker_error(response.error_code, "describing delegation tokens")
        return sorted(map(_token, response.tokens), key=lambda each: each.token_id)


def _token(each: Any) -> DelegationToken:
    owner = f"{each.principal_type}:{each.principal_name}"
    requester = each.token_requester_principal_name
    return DelegationToken(
        each.token_id,
        owner,
        f"{each.token_requester_principal_type}:{requester}" if requester else owner,
        each.issue_timestamp,
        each.expiry_timestamp,
        each.max_timestamp,
        tuple(f"{one.principal_type}:{one.principal_name}" for one in each.renewers),
        each.hmac,
    )


def _parts(principal: str) -> tuple[str, str]:
    kind, colon, name = principal.partition(":")
    if not kind or not colon or not name:
        raise ConfigError(f"{principal!r} is not a principal such as User:alice")
    return kind, name
