"""Parses schemas of requests and records with everything that they refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bowstring.registry import refusals
from bowstring.registry.operations.configs import validates_new_schemas
from bowstring.registry.operations.modes import is_importing, mode_in_scope
from bowstring.registry.operations.schema_request import SchemaRequest
from bowstring.registry.qualified_subject import in_context_of
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.schema_record import SchemaRecord, SchemaReference
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsed_schema import ParsedSchema
from bowstring.schemas.resolved_reference import ResolvedReference


def parse_record(image: RegistryImage, record: SchemaRecord) -> ParsedSchema:
    """Raises RegistryError (42201)."""
    _, resolved = resolve(image, record.subject, record.references, deleted=True)
    return _parsed(image, record.kind, record.text, resolved, is_new=False)


def parse_request(
    image: RegistryImage, request: SchemaRequest, normalize: bool, is_new: bool | None = None
) -> ParsedSchema | None:
    """Parses the schema of a request, and puts the canonical text and the versions of references into it.

    In IMPORT and FORWARD mode schemas are taken as they come.

    Args:
        is_new: Whether rules for new schemas hold; None: as the config in scope says.

    Returns:
        None if there is no text.

    Raises:
        RegistryError: 42201.
    """
    if request.is_empty or request.text is None:
        return None
    mode = mode_in_scope(image, request.subject)
    if request.schema_id >= 0 and mode != "IMPORT":
        request.schema_id = -1
    if is_new is None:
        is_new = validates_new_schemas(image, request.subject)
    normalize = normalize and not is_importing(mode)
    require_size(image, request.text)
    references, resolved = resolve(image, request.subject, request.references, deleted=not is_new)
    parsed = _parsed(image, request.kind, request.text, resolved, is_new=is_new, normalize=normalize)
    request.kind = parsed.kind
    request.text = parsed.canonical
    request.meaning = None
    request.references = (
        tuple(sorted(dict.fromkeys(references), key=lambda each: each[1:]))
        if normalize
        else tuple(references)
    )
    return parsed


def require_size(image: RegistryImage, text: str) -> None:
    """Raises RegistryError (42209) for a text that is too long for a schema."""
    longest = image.defaults.schema_max_bytes
    if len(text) > longest:
        raise refusals.schema_too_large(
            f"The schema has {len(text)} characters; at most {longest} are accepted."
        )


def formatted(image: RegistryImage, record: SchemaRecord, format: str) -> str:
    """The text of a version in a format (`?format=`). Raises RegistryError (42201)."""
    return text_in(parse_record(image, record), format) if format.strip() else record.text


def text_in(parsed: ParsedSchema, format: str) -> str:
    """The text of a schema in a format. Raises RegistryError (42201): it cannot be written so."""
    try:
        return parsed.formatted(format)
    except InvalidSchemaError as error:
        raise refusals.invalid_schema(f"The schema has no format {format}: {error}") from error


def resolve(
    image: RegistryImage, subject: str, references: Sequence[SchemaReference], deleted: bool
) -> tuple[list[SchemaReference], list[ResolvedReference]]:
    """Looks up what a schema refers to.

    Args:
        subject: Of the schema; references without a context are in its context.
        deleted: Whether soft-deleted versions count.

    Returns:
        The references with the number of the latest version for -1, and the schemas behind them, each after
        what it refers to itself; each name once, so circles end.

    Raises:
        RegistryError: 42201: a version does not exist, or there are too many.
    """
    direct: list[SchemaReference] = []
    resolved: list[ResolvedReference] = []
    names: set[str] = set()
    # Each level: the subject, its references that are left, and the schema that they belong to.
    levels: list[tuple[str, Iterator[SchemaReference], ResolvedReference | None]] = [
        (subject, iter(references), None)
    ]
    while levels:
        parent, left, schema = levels[-1]
        reference = next(left, None)
        if reference is None:
            levels.pop()
            if schema is not None:
                resolved.append(schema)
            continue
        record = _referenced(image, parent, reference, deleted)
        if len(levels) == 1:
            direct.append(reference._replace(version=record.version))
        if reference.name not in names:
            names.add(reference.name)
            if len(names) > image.defaults.references_max:
                raise refusals.invalid_schema(
                    f"The schema needs more than {image.defaults.references_max} other schemas."
                )
            found = ResolvedReference(reference.name, record.subject, record.version, record.text)
            levels.append((record.subject, iter(record.references), found))
    return direct, resolved


def _referenced(image: RegistryImage, parent: str, reference: SchemaReference, deleted: bool) -> SchemaRecord:
    subject = in_context_of(parent, reference.subject)
    record = image.latest(subject) if reference.version == -1 else image.version(subject, reference.version)
    if record is None or (record.deleted and not deleted):
        raise refusals.invalid_schema(
            f"The schema refers to version {reference.version} of subject '{subject}', which does not exist."
        )
    return record


def _parsed(
    image: RegistryImage,
    kind: str,
    text: str,
    references: Sequence[ResolvedReference],
    *,
    is_new: bool,
    normalize: bool = False,
) -> ParsedSchema:
    try:
        return image.parsed.parse(kind, text, references, is_new=is_new, normalize=normalize)
    except InvalidSchemaError as error:
        raise not_parsed(kind, error) from error


def not_parsed(kind: str, error: InvalidSchemaError) -> RegistryError:
    """The refusal of a text that is no schema."""
    return refusals.invalid_schema(f"Invalid schema of type {kind}: {error}")


def resolved_or_error(image: RegistryImage, record: SchemaRecord) -> list[ResolvedReference] | RegistryError:
    """The schemas that a version needs, to be parsed in another thread; the refusal if one is missing."""
    try:
        return resolve(image, record.subject, record.references, deleted=True)[1]
    except RegistryError as error:
        return error
