"""Decides about changes of SCRAM credentials (KIP-554)."""

from typing import Final

from bowstring.engine.controller.decision import Decision, check_not_too_many
from bowstring.engine.metadata.features import SCRAM_SINCE
from bowstring.engine.metadata.scram_image import ScramImage
from bowstring.protocol.errors import Error, Errors
from bowstring.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bowstring.protocol.records.cluster_metadata.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from bowstring.protocol.schema import MetadataRecord
from bowstring.security.scram import MAX_ITERATIONS, SCRAM_BY_NUMBER

_Change = ScramCredentialDeletion | ScramCredentialUpsertion
_Refusal = tuple[Error, str]

_TWICE: Final = (
    Errors.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)


_UNKNOWN: Final = (
    Errors.RESOURCE_NOT_FOUND,
    "Attempt to delete a user credential that does not exist",
)


def alter_scram_credentials(
    scram: ScramImage, request: AlterUserScramCredentialsRequest, *, metadata_version: int
) -> Decision[AlterUserScramCredentialsResponse]:
    """Sets and removes credentials; those of a user completely or not at all. As in Kafka, a user may occur
    once in a request.

    Raises:
        KafkaError: POLICY_VIOLATION: the request changes too much at once.
    """
    check_not_too_many(len(request.deletions) + len(request.upsertions))
    records: dict[str, MetadataRecord] = {}
    errors: dict[str, _Refusal] = {}
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        if change.name in errors:
            continue
        if records.pop(change.name, None) is not None:
            errors[change.name] = _TWICE
            continue
        error = _refusal(scram, change, metadata_version)
        if error is not None:
            errors[change.name] = error
        else:
            records[change.name] = _record(change)
    results = [AlterUserScramCredentialsResult(user=user) for user in records]
    results += [
        AlterUserScramCredentialsResult(user=user, error_code=error.code, error_message=message)
        for user, (error, message) in errors.items()
    ]
    return Decision(list(records.values()), AlterUserScramCredentialsResponse(results=results))


def _refusal(scram: ScramImage, change: _Change, metadata_version: int) -> _Refusal | None:
    mechanism = SCRAM_BY_NUMBER.get(change.mechanism)
    if metadata_version < SCRAM_SINCE:
        return Errors.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
    if not change.name:
        return Errors.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism is None:
        return Errors.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    if isinstance(change, ScramCredentialDeletion):
        is_there = scram.get(change.name, change.mechanism) is not None
        return None if is_there else _UNKNOWN
    if mechanism.min_iterations <= change.iterations <= MAX_ITERATIONS:
        return None
    amount = "few" if change.iterations < mechanism.min_iterations else "many"
    return Errors.UNACCEPTABLE_CREDENTIAL, f"Too {amount} iterations"


def _record(change: _Change) -> MetadataRecord:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    credential = SCRAM_BY_NUMBER[change.mechanism].credential(
        bytes(change.salt), bytes(change.salted_password), change.iterations
    )
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )
