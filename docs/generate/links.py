"""Turns links as GitHub reads them into links of the docs site.

Pages are written for both: a link in `docs/internals/fetch.md` to `../../engine/api` opens the folder on
GitHub. On the site it becomes a link to the repository, whose address is in the environment variable
`BOWSTRING_REPOSITORY`, such as `https://github.com/owner/name` (the workflow sets it). Without it the
link's text stays and the link goes.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

ROOT_PAGES: Final[dict[str, str]] = {
    "ARCHITECTURE.md": "internals/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
"""Page on the site by file at the top of the repository."""

_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^ *\2 *$", re.M | re.S)
_CODE: Final = re.compile(r"(`+)(?!`).+?(?<!`)\1(?!`)", re.S)
_INLINE: Final = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)((?: +\"[^\"]*\")?)\)")
_DEFINITION: Final = re.compile(r"^( {0,3}\[[^\]]+\]: +)(\S+)", re.M)
_HEADING: Final = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$", re.M)


def repository() -> str:
    """The address of the repository, or nothing where it is not known."""
    return os.environ.get("BOWSTRING_REPOSITORY", "").rstrip("/")


def is_relative(target: str) -> bool:
    """Whether a link leads to another file of the repository."""
    return not re.match(r"[a-z][a-z0-9+.-]*:|//|/|#|<", target, re.I)


def links(text: str) -> list[str]:
    """The targets of a page's links, outside of code."""
    found: list[str] = []

    def note(target: str) -> str:
        found.append(target)
        return target

    _with_links(text, note)
    return found


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site name them."""
    seen: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = slugify(plain)
        again = seen.get(slug, 0)
        seen[slug] = again + 1
        found.add(f"{slug}-{again}" if again else slug)
    return found


def slugify(heading: str, separator: str = "-") -> str:
    """The anchor of a heading by GitHub's rule, so that a link is right in both places."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", separator)


def for_site(text: str, source: str, page: str, pages: Collection[str]) -> str:
    """A page's Markdown with the links that the site needs.

    Args:
        text: The Markdown.
        source: Path of the file in the repository, which its links are relative to.
        page: Path of the page below `docs/`.
        pages: All files of the site, by their paths below `docs/`.
    """

    def resolve(target: str) -> str | None:
        if not is_relative(target):
            return target
        path, hash_, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        on_site = _on_site(path, pages)
        if on_site is not None:
            return posixpath.relpath(on_site, posixpath.dirname(page) or ".") + hash_ + anchor
        if path.startswith("..") or not (ROOT / path).exists():
            return target  # MkDocs reports it
        if not repository():
            return None
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        return f"{repository()}/{kind}/HEAD/{path}{hash_}{anchor}"

    return _with_links(text, resolve)


def _on_site(path: str, pages: Collection[str]) -> str | None:
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    below = path.removeprefix("docs/")
    if below != path and below in pages:
        return below
    indexes = (posixpath.join(below, name) for name in ("index.md", "README.md"))
    return next((page for page in indexes if below != path and page in pages), None)


def _with_links(text: str, resolve: Callable[[str], str | None]) -> str:
    """The text with each target replaced; a link whose target becomes None is reduced to its text."""

    def inline(match: re.Match[str]) -> str:
        image, label, target, title = match.groups()
        found = resolve(target)
        if "](" in label:  # an image that is a link
            label = _INLINE.sub(inline, label)
        return label if found is None else f"{image}[{label}]({found}{title})"

    def definition(match: re.Match[str]) -> str:
        return match[1] + (resolve(match[2]) or "#")

    def outside(part: str) -> str:
        return _DEFINITION.sub(definition, _INLINE.sub(inline, part))

    # Inline code may stand inside a label, so it is hidden, not cut out.
    hidden: list[str] = []

    def hide(match: re.Match[str]) -> str:
        hidden.append(match[0])
        return f"\x00{len(hidden) - 1}\x00"

    text = outside(_CODE.sub(hide, _FENCE.sub(hide, text)))
    while "\x00" in text:
        text = re.sub(r"\x00(\d+)\x00", lambda match: hidden[int(match[1])], text)
    return text
