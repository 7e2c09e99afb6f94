"""Derives the navigation from the folders, so that a new page appears without being listed.

The pages of a folder stand in the order in which its `index.md` or `README.md` links to them; those that it
does not link follow by name. A page's title is its first heading.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

from docs.generate.links import is_relative, links

SECTIONS: Final[dict[str, str]] = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "guide": "Guides",
    "reference": "Reference",
    "internals": "Internals",
    "decisions": "Decisions",
    "project": "Project",
}
"""Title by folder, in the order of the tabs."""

INDEXES: Final = ("index.md", "README.md")
"""What a folder's own page is called."""


def navigation(pages: Iterable[str], read: Callable[[str], str]) -> list[Any]:
    """What mkdocs.yml would have under `nav`.

    Args:
        pages: Paths of all pages below `docs/`, in the order in which unlisted ones stand.
        read: Gives a page's Markdown.
    """
    folders: dict[str, list[str]] = {"": []}
    for page in pages:
        folders.setdefault(page.partition("/")[0] if "/" in page else "", []).append(page)
    found = _entries(folders.pop(""), read)
    for folder in sorted(folders, key=_place):
        title = SECTIONS.get(folder, folder.replace("-", " ").capitalize())
        found.append({title: _entries(folders[folder], read)})
    return found


def title(text: str) -> str | None:
    """The first heading of a page, without its formatting; None if it has none."""
    heading = re.search(r"^# +(.+)$", text, re.M)
    return None if heading is None else re.sub(r"[`*]", "", heading[1]).strip()


def _place(folder: str) -> tuple[int, str]:
    known = list(SECTIONS)
    return (known.index(folder) if folder in known else len(known), folder)


def _entries(pages: list[str], read: Callable[[str], str]) -> list[Any]:
    index = [page for page in pages if posixpath.basename(page) in INDEXES]
    order = _linked(index[0], read(index[0])) if index else []
    rest = [page for page in pages if page not in index]
    rest.sort(key=lambda page: order.index(page) if page in order else len(order))
    return [*index, *({heading: page} if (heading := title(read(page))) else page for page in rest)]


def _linked(page: str, text: str) -> list[str]:
    folder = posixpath.dirname(page)
    targets = (target.partition("#")[0] for target in links(text) if is_relative(target))
    return list(dict.fromkeys(posixpath.normpath(posixpath.join(folder, target)) for target in targets))
