"""Generates the reference pages of the docs site while it is built: one module for each page.

A module has `render() -> str`, which returns the page as Markdown. To add a page, write its module and add
one row below. Nothing generated is checked in. `hooks.py` gives the pages to MkDocs, `nav.py` orders them,
`links.py` turns links to code into links to the repository.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

PAGES: Final[dict[str, str]] = {
    "reference/configs.md": "configs",
    "reference/client-settings.md": "client_settings",
    "reference/commands.md": "commands",
    "reference/python-api.md": "python_api",
    "reference/metrics.md": "metrics",
    "reference/errors.md": "errors",
    "reference/apis.md": "apis",
    "reference/messages.md": "messages",
    "reference/schema-compatibility.md": "schema_compatibility",
}
"""Module by page, in the order of the navigation."""


@cache
def render(page: str) -> str:
    """The Markdown of one page of `PAGES`."""
    text: str = import_module(f"docs.generate.{PAGES[page]}").render()
    return text
