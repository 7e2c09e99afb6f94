"""Gives MkDocs the generated pages, the navigation and the links of the site (`hooks:` in mkdocs.yml)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # MkDocs loads this file by its path
    sys.path.insert(0, str(ROOT))

from mkdocs.structure.files import File, Files  # noqa: E402

from docs.generate import PAGES, render  # noqa: E402
from docs.generate.links import ROOT_PAGES, for_site, repository, slugify  # noqa: E402
from docs.generate.nav import navigation  # noqa: E402


def on_config(config: Any) -> Any:
    """Anchors by GitHub's rule; the repository's address, where it is known."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugify
    if repository():
        config.repo_url = repository()
        config.repo_name = "/".join(repository().split("/")[-2:])
        config.edit_uri = "edit/HEAD/docs/"
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the generated pages and those of the repository's top; derives the navigation."""
    for source, page in ROOT_PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    for page in PAGES:
        files.append(File.generated(config, page, content=render(page)))
    written = [file.src_uri for file in files.documentation_pages() if file.src_uri not in PAGES]
    config.nav = navigation([*PAGES, *sorted(written)], lambda page: files.src_uris[page].content_string)
    return files


def on_page_markdown(markdown: str, *, page: Any, files: Files, **_: Any) -> str:
    """Links to files outside of docs/ lead to the repository."""
    path = page.file.src_uri
    sources = {each: source for source, each in ROOT_PAGES.items()}
    return for_site(markdown, sources.get(path, f"docs/{path}"), path, files.src_uris)
