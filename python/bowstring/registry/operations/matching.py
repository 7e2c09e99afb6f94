"""Finds out whether a subject has a schema already, however it is spelled."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence

from bowstring.registry.operations.parsing import parse_record, parse_request, resolved_or_error
from bowstring.registry.operations.schema_request import SchemaRequest
from bowstring.registry.parsed_schemas import parse_outcome
from bowstring.registry.qualified_subject import context_of
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_metadata import Metadata, version_of, without_version
from bowstring.registry.schema_record import SchemaRecord, schema_md5
from bowstring.registry.schema_work import Deferred
from bowstring.schemas.parsed_schema import ParsedSchema


def find_schema(
    image: RegistryImage, request: SchemaRequest, normalize: bool, deleted: bool, latest_only: bool = False
) -> SchemaRecord | None:
    """The version of the request's subject with its schema.

    Args:
        deleted: Whether soft-deleted versions count.
        latest_only: Whether only the latest one does.

    Raises:
        RegistryError: 42201.
    """
    wanted = request.copy()
    parsed = parse_request(image, wanted, normalize, is_new=False)
    if parsed is None:
        return None
    if not latest_only:
        record = same_schema(image, wanted)
        if record is not None and (deleted or not record.deleted):
            return record
    latest = image.latest(wanted.subject)
    candidates = [latest] if latest_only else image.versions(wanted.subject)[::-1]
    return first_meant(
        image,
        wanted,
        parsed,
        [record for record in candidates if record is not None and (deleted or not record.deleted)],
    )


def schema_id_of(image: RegistryImage, request: SchemaRequest) -> int | None:
    """The id of a parsed request's schema in its context."""
    context = image.contexts.get(context_of(request.subject))
    if context is None or request.text is None:
        return None
    md5 = schema_md5(request.text, request.references, request.metadata, request.rule_set)
    return context.id_of(md5, request.kind)


def same_schema(image: RegistryImage, request: SchemaRequest) -> SchemaRecord | None:
    """The last version of a parsed request's subject with the very same schema."""
    schema_id = schema_id_of(image, request)
    if schema_id is None:
        return None
    found = image.context(context_of(request.subject)).of_id(schema_id)
    return next((record for record in reversed(found) if record.subject == request.subject), None)


def first_meant(
    image: RegistryImage, request: SchemaRequest, parsed: ParsedSchema, records: Sequence[SchemaRecord]
) -> SchemaRecord | None:
    """The first of some versions that has the schema of a parsed request. Raises Deferred."""
    if not records:
        return None
    _prepare_meanings(image, records)
    wanted, canonical = _wanted(request, parsed), parsed.canonical
    for record in records:
        # A subject may have thousands of versions, and nearly all of them mean something else.
        if record.meaning is not None and record.meaning != wanted and record.text != canonical:
            continue
        if _means(image, request, parsed, record):
            return record
    return None


def _means(image: RegistryImage, request: SchemaRequest, parsed: ParsedSchema, record: SchemaRecord) -> bool:
    """Whether a version has the schema of a parsed request.

    References may be written out in the request, and metadata may have or lack the version's number.
    """
    if request.kind != record.kind or request.rule_set != record.rule_set:
        return False
    if not _same_metadata(request.metadata, record):
        return False
    is_written_out = not request.references and bool(record.references)
    if not is_written_out and _latest_named(image, request) != _latest_named(image, record):
        return False
    return parsed.canonical == record.text or _wanted(request, parsed) == _meaning(image, record)


def _prepare_meanings(image: RegistryImage, records: Sequence[SchemaRecord]) -> None:
    """Has the meanings of versions computed beside the loop if all of them take long. Raises Deferred."""
    allowance = image.parsed.allowance
    left = [record for record in records if record.meaning is None]
    if allowance is None or not left:
        return
    for record in left:
        record.meaning = allowance.results.get(("meaning", record))
    left = [record for record in left if record.meaning is None]
    if sum(len(record.text) for record in left) <= allowance.chars:
        return
    resolved = [(record, resolved_or_error(image, record)) for record in left]

    def work(is_over: Callable[[], bool]) -> dict[Hashable, bytes]:
        results: dict[Hashable, bytes] = {}
        for record, references in resolved:
            if is_over():
                break
            if isinstance(references, RegistryError):
                outcome = None
            else:
                outcome = parse_outcome(record.kind, record.text, references)
            results["meaning", record] = _hash(outcome[0]) if isinstance(outcome, tuple) else b""
        return results

    raise Deferred(work)


def _wanted(request: SchemaRequest, parsed: ParsedSchema) -> bytes:
    if request.meaning is None:
        request.meaning = _hash(parsed)
    return request.meaning


def _hash(parsed: ParsedSchema) -> bytes:
    return hashlib.md5(parsed.meaning.encode(), usedforsecurity=False).digest()


def _meaning(image: RegistryImage, record: SchemaRecord) -> bytes:
    if record.meaning is None:
        try:
            record.meaning = _hash(parse_record(image, record))
        except RegistryError:
            record.meaning = b""  # another registry parsed what this one cannot
    return record.meaning


def _latest_named(image: RegistryImage, schema: SchemaRequest | SchemaRecord) -> list[tuple[str, str, int]]:
    """The references of a schema, with the number of the latest version for -1."""
    found = []
    for name, subject, version in schema.references:
        latest = image.latest(subject) if version == -1 else None
        found.append((name, subject, version if latest is None else latest.version))
    return found


def _same_metadata(given: Metadata | None, record: SchemaRecord) -> bool:
    ours, theirs = _number(given), _number(record.metadata)
    if ours is None and theirs is not None:
        return (given or {}) == without_version(record.metadata)
    if ours is not None and theirs is None:
        return ours == record.version and without_version(given) == (record.metadata or {})
    return given == record.metadata


def _number(metadata: Metadata | None) -> int | None:
    text = version_of(metadata)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
