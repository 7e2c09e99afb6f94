"""The docs site: its navigation and links, and the strict build where MkDocs is installed (`make docs` installs it)."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from docs.generate import PAGES
from docs.generate.links import ROOT_PAGES, anchors, for_site, is_relative, links, slugify
from docs.generate.nav import navigation, title

ROOT = Path(__file__).resolve().parents[3]
WRITTEN = [path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs").rglob("*.md"))]
BUILD_TIMEOUT_S = 300


def test_navigation_takes_the_order_of_the_index():
    pages = {
        "index.md": "# Bowstring",
        "tutorial/index.md": "# Tutorial\n\n1. [one](z-first.md#top)\n2. [two](./a-second.md) and [code](../../x.py)",
        "tutorial/a-second.md": "# The `second`",
        "tutorial/z-first.md": "# First",
        "tutorial/not-linked.md": "# Rest",
        "decisions/README.md": "# Decisions",
        "decisions/0002-b.md": "# B",
        "decisions/0001-a.md": "# A",
        "extra-pages/x.md": "no title",
    }
    found = navigation(sorted(pages), pages.__getitem__)
    assert found == [
        "index.md",
        {
            "Tutorial": [
                "tutorial/index.md",
                {"First": "tutorial/z-first.md"},
                {"The second": "tutorial/a-second.md"},
                {"Rest": "tutorial/not-linked.md"},
            ]
        },
        {"Decisions": ["decisions/README.md", {"A": "decisions/0001-a.md"}, {"B": "decisions/0002-b.md"}]},
        {"Extra pages": ["extra-pages/x.md"]},
    ]


def test_links_to_code_lead_to_the_repository(monkeypatch):
    text = (
        "[api](../../engine/api) [row](../../python/bowstring/protocol/errors.py#L9) [page](other.md#x) [top](../../ARCHITECTURE.md)\n"
        "`[not](../../engine/api)` [`code`](../../setup.py) [web](https://example.org) [gone](../../gone.py) [here](#a)\n"
        "```\n[not](../../engine/api)\n```\n[ref]: ../../Makefile\n"
    )
    pages = {"internals/other.md", "internals/x.md"}
    monkeypatch.setenv("BOWSTRING_REPOSITORY", "https://example.org/o/n/")
    assert for_site(text, "docs/internals/x.md", "internals/x.md", pages) == (
        "[api](https://example.org/o/n/tree/HEAD/engine/api) [row](https://example.org/o/n/blob/HEAD/python/bowstring/protocol/errors.py#L9) "
        "[page](other.md#x) [top](architecture.md)\n"
        "`[not](../../engine/api)` [`code`](https://example.org/o/n/blob/HEAD/setup.py) [web](https://example.org) "
        "[gone](../../gone.py) [here](#a)\n"
        "```\n[not](../../engine/api)\n```\n[ref]: https://example.org/o/n/blob/HEAD/Makefile\n"
    )
    monkeypatch.delenv("BOWSTRING_REPOSITORY")
    without = for_site(text, "docs/internals/x.md", "internals/x.md", pages)
    assert without.startswith("api row [page](other.md#x) [top](architecture.md)\n") and " `code` " in without


def test_links_of_a_page_at_the_top(monkeypatch):
    monkeypatch.setenv("BOWSTRING_REPOSITORY", "https://example.org/o/n")
    text = "[page](docs/internals/x.md) [folder](docs/internals) [code](engine/api) ![image](docs/demo.svg)"
    pages = {"internals/x.md", "internals/index.md", "demo.svg"}
    assert for_site(text, "CONTRIBUTING.md", "project/contributing.md", pages) == (
        "[page](../internals/x.md) [folder](../internals/index.md) [code](https://example.org/o/n/tree/HEAD/engine/api) "
        "![image](../demo.svg)"
    )


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("To add ...", "to-add-"),
        ("`send`, and (more)", "send-and-more"),
        ("Fetch (1)", "fetch-1"),
        ("a – b", "a--b"),
    ],
)
def test_anchors_are_those_of_github(heading, anchor):
    assert slugify(heading) == anchor


@pytest.mark.parametrize("source", [*WRITTEN, *ROOT_PAGES])
def test_links_of_written_pages_lead_somewhere(source):
    """Without MkDocs, so that it is always tested: files exist in a checkout, and headings."""
    text = (ROOT / source).read_text()
    assert title(text), "a page begins with its title"
    wrong = []
    for target in links(text):
        path, _, anchor = target.partition("#")
        if path and not is_relative(target):
            continue
        file = ((ROOT / source).parent / path if path else ROOT / source).resolve()
        if file.exists():
            there = file.read_text() if file.suffix == ".md" else ""
        else:
            wrong.append(target)
            continue
        if anchor and file.suffix == ".md" and anchor not in anchors(there):
            wrong.append(target)
    assert not wrong


def test_configuration():
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    validation = settings["validation"]
    assert set(validation["links"].values()) == set(validation["nav"].values()) == {"warn"}, (
        "`--strict` fails on these"
    )
    assert "nav" not in settings, "docs/generate/nav.py derives it"
    assert settings["site_dir"] == "build/site"


@pytest.mark.skipif(
    importlib.util.find_spec("material") is None,
    reason="MkDocs is not installed: `make docs` installs it and builds the site",
)
def test_the_strict_build(tmp_path):
    """A dead link fails it, and the pages exist."""
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--site-dir",
        str(tmp_path / "site"),
    ]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    assert ran.returncode == 0, ran.stderr
    for page in (*PAGES, *ROOT_PAGES.values()):
        assert (tmp_path / "site" / page.removesuffix(".md") / "index.html").is_file()
    api = (tmp_path / "site/reference/python-api/index.html").read_text()
    assert 'id="bowstring.Producer.send_arrow"' in api and 'id="bowstring.aio.Consumer.poll"' in api
    assert 'id="bowstring.Admin.alter_configs"' in api, "inherited methods are shown"
    assert "_DEFAULTS" not in api, "defaults are shown, not where they come from"
    assert "<blockquote>" not in api, "prompts of examples are code, not quotations"
