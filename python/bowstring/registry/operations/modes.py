"""Modes: whether a subject, a context or all take schemas, and with whose ids."""

from __future__ import annotations

from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.tombstones import Records, mode_tombstones, schema_tombstones
from bowstring.registry.qualified_subject import (
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    QualifiedSubject,
    context_of,
    is_default_context,
    is_valid,
    normalized,
    parse,
)
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.topic_records import (
    CLEAR_SUBJECT,
    MODE,
    TopicKey,
    encode_clear_subject,
    encode_mode,
)

MODES = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")

_DEFAULT = "READWRITE"
_GLOBAL = QualifiedSubject(GLOBAL_CONTEXT, "")


def mode(
    image: RegistryImage, subject: str | None = None, *, default_to_global: bool = False
) -> dict[str, str]:
    """GET /mode and /mode/{subject}.

    Raises:
        RegistryError: 40409.
    """
    name = _name(subject)
    found = mode_in_scope(image, name) if default_to_global else own_mode(image, name)
    if found is None:
        raise refusals.subject_mode_not_found(name)
    return {"mode": found}


def own_mode(image: RegistryImage, name: str | None) -> str | None:
    """The mode that was set for a subject or context; for the global ones there always is one."""
    found = image.modes.get(name)
    if found is None and (name is None or context_of(name) == GLOBAL_CONTEXT):
        return _DEFAULT
    return found


def mode_in_scope(image: RegistryImage, name: str | None) -> str:
    """What applies to a subject: its own mode, or its context's, or the one of all contexts."""
    if not image.modes:
        return _DEFAULT
    for scope in scopes(name):
        if (found := image.modes.get(scope)) is not None:
            return found
    return _DEFAULT


def scopes(name: str | None) -> tuple[str | None, ...]:
    """Where to look for a config or mode of a subject, nearest first."""
    if name is None:
        return None, _GLOBAL.name
    qualified = parse(name)
    around = None if qualified.context == DEFAULT_CONTEXT else qualified.prefix
    return name, around, _GLOBAL.name


def is_importing(mode: str) -> bool:
    """Whether schemas are taken as they come from another registry."""
    return mode in ("IMPORT", "FORWARD")


def require_writable(image: RegistryImage, name: str | None) -> None:
    """Raises RegistryError (42205) where schemas and configs are read-only."""
    if mode_in_scope(image, name) in ("READONLY", "READONLY_OVERRIDE"):
        raise refusals.not_permitted(f"{_described(name)} is in read-only mode.")


def require_registrable(image: RegistryImage, subject: str, has_id: bool) -> None:
    """Raises RegistryError (42205) where the mode takes no schema: with an id of its own, or without one."""
    require_writable(image, subject)
    found = mode_in_scope(image, subject)
    if has_id and not is_importing(found):
        raise refusals.not_permitted(
            f"{_described(subject)} is not in import mode; only there a schema may bring its id."
        )
    if not has_id and found != "READWRITE":
        raise refusals.not_permitted(f"{_described(subject)} is not in read-write mode.")


def decide_set_mode(
    image: RegistryImage, subject: str | None, body: object, *, force: bool = False
) -> Decision:
    """PUT /mode and /mode/{subject}; a mode of null deletes it.

    Import mode needs a subject, context or registry without schemas, unless forced; soft-deleted ones are
    deleted permanently.

    Raises:
        RegistryError: 42204, 42205, 42206, 42208.
    """
    if subject is not None and not is_valid(subject, for_settings=True):
        raise refusals.invalid_subject(subject)
    name = _name(subject)
    wanted = _wanted(body)
    if wanted == "FORWARD" and (name is None or parse(name) != _GLOBAL):
        raise refusals.invalid_mode(f"FORWARD is a mode of the context {_GLOBAL.name} only.")
    _require_mutable(image)
    records: Records = ()
    if wanted == "IMPORT" and not force and mode_in_scope(image, name) != "IMPORT":
        records += _emptying(image, name)
    if wanted is not None:
        records += image.keyed(TopicKey(MODE, name), encode_mode(name, wanted))
    else:
        records += mode_tombstones(image, name)
    assert isinstance(body, dict)
    return Decision(records, {"mode": body["mode"]})


def _wanted(body: object) -> str | None:
    if not isinstance(body, dict) or "mode" not in body:
        raise refusals.invalid_mode(f"The body needs a mode: one of {', '.join(MODES)}, or null.")
    found = body["mode"]
    if found is None:
        return None
    if not isinstance(found, str) or found.upper() not in MODES:
        raise refusals.invalid_mode(f"{found!r} is not a mode: use one of {', '.join(MODES)}.")
    return found.upper()


def _emptying(image: RegistryImage, name: str | None) -> Records:
    """Records that delete the soft-deleted versions for good."""
    going = list(image.matching(name))
    for record in going:
        if not record.deleted:
            raise refusals.not_permitted(
                "Import mode needs a place without schemas; delete its subjects or use force=true."
            )
        if image.referrers(record.subject, record.version):
            raise refusals.reference_exists(record.subject, record.version)
    clear = image.keyed(TopicKey(CLEAR_SUBJECT, name), encode_clear_subject(name))
    return schema_tombstones(image, going) + clear


def decide_delete_mode(image: RegistryImage, subject: str | None, *, recursive: bool = False) -> Decision:
    """DELETE /mode and /mode/{subject}: answers the mode that was deleted.

    Args:
        recursive: Whether the modes of a context's subjects go with the context's.

    Raises:
        RegistryError: 40401, 42205.
    """
    name = _name(subject)
    found = own_mode(image, name)
    if found is None and not recursive:
        raise refusals.subject_not_found(name)
    _require_mutable(image)
    records = mode_tombstones(image, name)
    if recursive and (name is None or not parse(name).subject):
        context = DEFAULT_CONTEXT if name is None else parse(name).context
        for other in sorted(each for each in image.modes if each is not None and each != name):
            if parse(other).context == context and parse(other).subject:
                records += mode_tombstones(image, other)
    return Decision(records, {} if found is None else {"mode": found})


def _require_mutable(image: RegistryImage) -> None:
    if not image.defaults.mode_mutability:
        raise refusals.not_permitted("This registry does not allow changes of modes (mode.mutability).")


def _described(name: str | None) -> str:
    if name is None:
        return "The registry"
    qualified = parse(name)
    what = f"Subject '{qualified.subject}'" if qualified.subject else "Everything"
    return what if qualified.context == DEFAULT_CONTEXT else f"{what} in context '{qualified.context}'"


def _name(subject: str | None) -> str | None:
    return None if subject is None or is_default_context(subject) else normalized(subject)
