"""Names of subjects with their contexts: `:.context:subject`.

A subject without a context is in the default context, `.`. The context `.__GLOBAL` holds config and modes
that apply to all contexts. Source: Confluent's QualifiedSubject, for a registry without tenants.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DEFAULT_CONTEXT = "."
GLOBAL_CONTEXT = ".__GLOBAL"
WILDCARD = ":*:"  # subjects of every context
CONTEXT_PREFIX = ":."

_RESERVED_SUBJECTS = ("__GLOBAL", "__EMPTY")
# Control characters, and halves of surrogate pairs.
_NO_PART_OF_NAMES = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class QualifiedSubject(NamedTuple):
    """A context, which starts with a dot, and a subject in it; an empty subject stands for the context."""

    context: str
    subject: str

    @property
    def name(self) -> str:
        """The subject as records and clients spell it: without the default context."""
        return self.prefix + self.subject

    @property
    def prefix(self) -> str:
        """`:.context:`, and nothing for the default context."""
        return "" if self.context == DEFAULT_CONTEXT else f":{self.context}:"


def parse(name: str) -> QualifiedSubject:
    """Splits the name of a subject, a context (`:.context:`) or a prefix."""
    if name.startswith(CONTEXT_PREFIX):
        context, _, subject = name[1:].partition(":")
        return QualifiedSubject(context, subject)
    if name.startswith(WILDCARD):
        return QualifiedSubject("*", name[len(WILDCARD) :])
    return QualifiedSubject(DEFAULT_CONTEXT, name)


def context_of(name: str) -> str:
    """The context of a subject, with its dot."""
    return parse(name).context if name.startswith(":") else DEFAULT_CONTEXT


def normalized(name: str) -> str:
    """`name` without the default context's prefix, and with the colon that may be missing after a context."""
    return parse(name).name if name.startswith(":") else name


def in_context_of(parent: str, name: str) -> str:
    """The full name of a subject that is named in a schema, or an alias, of the subject `parent`."""
    own = parse(name)
    around = context_of(parent)
    if own.context != DEFAULT_CONTEXT or around == DEFAULT_CONTEXT:
        return own.name
    return QualifiedSubject(around, name).name


def normalized_context(context: str) -> str:
    """`:.context:` for `context`, `.context` and `:.context:`; empty for the default context.

    Raises:
        ValueError: there is a colon inside.
    """
    bare = context.removeprefix(":").removesuffix(":")
    if ":" in bare:
        raise ValueError(f"Context name '{context}' contains a colon.")
    if not bare.startswith("."):
        bare = "." + bare
    return "" if bare == DEFAULT_CONTEXT else f":{bare}:"


def is_valid(name: str, for_settings: bool = False) -> bool:
    """Whether `name` may have schemas, or with `for_settings` a config and a mode."""
    if _NO_PART_OF_NAMES.search(name) is not None:
        return False
    qualified = parse(name)
    if qualified.subject in _RESERVED_SUBJECTS:
        return False
    return for_settings or qualified.context != GLOBAL_CONTEXT


def is_default_context(name: str | None) -> bool:
    """Whether a name in a path stands for the default context, whose settings are the global ones."""
    return name is None or parse(name) == (DEFAULT_CONTEXT, "")
