"""Aliases: a subject's config may name another subject that stands for it."""

from __future__ import annotations

from bowstring.registry.qualified_subject import in_context_of, normalized
from bowstring.registry.registry_image import RegistryImage, has_prefix


def resolve(image: RegistryImage, subject: str) -> str:
    """The subject that requests for `subject` mean; aliases do not chain."""
    if not subject:
        return subject
    name = normalized(subject)
    alias = image.configs.get(name, {}).get("alias")
    return in_context_of(name, alias) if alias else subject


def aliased(image: RegistryImage, prefix: str) -> dict[str, list[str]]:
    """The subjects that others stand for: each with the aliases whose names have a prefix.

    The reverse of `resolve`: the keys are what aliases mean.
    """
    found: dict[str, list[str]] = {}
    for name in sorted(name for name in image.configs if name is not None):
        alias = image.configs[name].get("alias")
        if alias and has_prefix(name, prefix):
            found.setdefault(in_context_of(name, alias), []).append(name)
    return found
