"""Resolves references of schemas against the URI that they are in (RFC 3986)."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus, urljoin

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def has_scheme(uri: str) -> bool:
    """Whether `uri` is absolute."""
    return _SCHEME.match(uri) is not None


def resolve(base: str, reference: str) -> str:
    """Returns what `reference` names inside the document at `base`, "" if that has no URI.

    Raises:
        ValueError: One of them is no URI.
    """
    if not base or has_scheme(reference):
        return reference
    if not reference or reference.startswith("#"):
        return base.partition("#")[0] + reference
    scheme = _SCHEME.match(base)
    if scheme is None:
        return urljoin(base, reference)
    rest = base[scheme.end() :]
    if not rest.startswith("/"):
        return reference  # a URN has no path to be relative to
    # urljoin resolves only schemes that it lists.
    return scheme[0] + urljoin("http:" + rest, reference).removeprefix("http:")


def pointer_tokens(fragment: str) -> list[str]:
    """Returns the steps of a JSON pointer without its first slash, still escaped (RFC 6901)."""
    return fragment.split("/")[1:]


def token_readings(token: str) -> tuple[str, str]:
    """Returns a step unescaped, without and with decoding of percent signs."""
    return _unescaped(token), _unescaped(unquote_plus(token))


def _unescaped(token: str) -> str:
    return token.replace("~1", "/").replace("~0", "~")
