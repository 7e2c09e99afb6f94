"""Decides about delegation tokens (KIP-48, KIP-900). `now_ms` is the time of day: tokens outlive nodes."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from bowstring.engine.controller.decision import RECORDS_MAX, Decision
from bowstring.engine.metadata.delegation_tokens_image import DelegationTokensImage
from bowstring.engine.metadata.features import DELEGATION_TOKENS_SINCE
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.records.cluster_metadata.security import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)
from bowstring.protocol.schema import MetadataRecord

_USER: Final = "User"
_LONG_MAX: Final = (1 << 63) - 1


class Lifetimes(NamedTuple):
    """delegation.token.max.lifetime.ms and delegation.token.expiry.time.ms."""

    max_ms: int
    renewal_ms: int


def check_level(metadata_version: int) -> None:
    """Checks that the log may have tokens.

    Raises:
        KafkaError: UNSUPPORTED_VERSION.
    """
    if metadata_version < DELEGATION_TOKENS_SINCE:
        raise KafkaError(Errors.UNSUPPORTED_VERSION, "The metadata.version has no delegation tokens.")


def create_token(
    token_id: str,
    *,
    owner: str,
    requester: str,
    renewers: Sequence[tuple[str, str]],
    max_lifetime_ms: int,
    lifetimes: Lifetimes,
    now_ms: int,
) -> Decision[DelegationTokenRecord]:
    """Adds a token.

    Args:
        renewers: Type and name of principals that may renew it, beside its owner.
        max_lifetime_ms: The client's wish; 0 or less: the longest.

    Raises:
        KafkaError: INVALID_PRINCIPAL_TYPE: a renewer is no user.
    """
    if any(kind != _USER for kind, _ in renewers):
        raise KafkaError(Errors.INVALID_PRINCIPAL_TYPE)
    life_ms = min(lifetimes.max_ms, max_lifetime_ms) if max_lifetime_ms > 0 else lifetimes.max_ms
    max_timestamp = _sum(now_ms, life_ms)
    record = DelegationTokenRecord(
        owner=owner,
        requester=requester,
        renewers=[f"{kind}:{name}" for kind, name in renewers],
        issue_timestamp=now_ms,
        max_timestamp=max_timestamp,
        expiration_timestamp=min(max_timestamp, _sum(now_ms, lifetimes.renewal_ms)),
        token_id=token_id,
    )
    return Decision([record], record)


def renew_token(
    token: DelegationTokenRecord | None, principal: str, period_ms: int, *, lifetimes: Lifetimes, now_ms: int
) -> Decision[int]:
    """Extends the life of a token; the answer is its new end.

    Raises:
        KafkaError: The token is unknown or expired, or the principal may not renew it.
    """
    token = _checked(token, principal)
    _check_not_expired(token, now_ms)
    life_ms = min(lifetimes.renewal_ms, period_ms) if period_ms > 0 else lifetimes.renewal_ms
    return _until(token, _sum(now_ms, life_ms))


def expire_token(
    token: DelegationTokenRecord | None, principal: str, period_ms: int, *, now_ms: int
) -> Decision[int]:
    """Shortens the life of a token, or ends it at once with a negative period; the answer is its end.

    Raises:
        KafkaError: As for `renew_token`.
    """
    token = _checked(token, principal)
    if period_ms < 0:
        return Decision([RemoveDelegationTokenRecord(token_id=token.token_id)], now_ms)
    _check_not_expired(token, now_ms)
    return _until(token, _sum(now_ms, period_ms))


def remove_expired(tokens: DelegationTokensImage, now_ms: int) -> Decision[int]:
    """Removes tokens whose life has ended; the answer is their number."""
    records: list[MetadataRecord] = [
        RemoveDelegationTokenRecord(token_id=token.token_id)
        for token in tokens.by_id.values()
        if _is_expired(token, now_ms)
    ]
    return Decision(records[:RECORDS_MAX], len(records))


def may_renew(token: DelegationTokenRecord, principal: str) -> bool:
    """Returns whether a principal owns a token or may renew it."""
    return token.owner == principal or principal in token.renewers


def _checked(token: DelegationTokenRecord | None, principal: str) -> DelegationTokenRecord:
    if token is None:
        raise KafkaError(Errors.DELEGATION_TOKEN_NOT_FOUND)
    if not may_renew(token, principal):
        raise KafkaError(Errors.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token


def _is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return token.max_timestamp < now_ms or token.expiration_timestamp < now_ms


def _check_not_expired(token: DelegationTokenRecord, now_ms: int) -> None:
    if _is_expired(token, now_ms):
        raise KafkaError(Errors.DELEGATION_TOKEN_EXPIRED)


def _until(token: DelegationTokenRecord, end_ms: int) -> Decision[int]:
    end_ms = min(token.max_timestamp, end_ms)
    record = DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=end_ms,
        token_id=token.token_id,
    )
    return Decision([record], end_ms)


def _sum(now_ms: int, life_ms: int) -> int:
    return min(_LONG_MAX, now_ms + life_ms)
