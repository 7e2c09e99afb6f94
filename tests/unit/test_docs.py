"""The docs are checked like the code: the length of ARCHITECTURE.md, links, paths in backticks, orphans."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
PAGES: Final = sorted(
    page
    for page in (
        *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")),
        *DOCS.rglob("*.md"),
    )
    if page.is_file()
)
NOTES: Final = [
    ROOT / name for name in ("CHANGELOG.md", "SECURITY.md", "bench/README.md", "tests/unstable.md")
]
ARCHITECTURE_WORDS_MAX: Final = 1500
COLUMNS_MAX: Final = 100
CHECKED_FOLDERS: Final = ("_native/", "engine/", "python/", "bench/", "tests/", "docs/")
# `make docs` writes these pages, and fails when a link to one of them is dead.
GENERATED: Final = DOCS / "reference"

_FENCE: Final = re.compile(r"^( *)(```+|~~~+).*?^\1\2`*$", re.M | re.S)
_INLINE_CODE: Final = re.compile(r"(`+)(.+?)\1", re.S)
_LINK: Final = re.compile(r"\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
_EXTERNAL: Final = re.compile(r"[a-z][a-z0-9+.-]*:|//|#", re.I)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(page: Path) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[Path]:
    """Targets of a page's relative links; links into the page itself are left out."""
    for target in _LINK.findall(_INLINE_CODE.sub("", prose(page))):
        if not _EXTERNAL.match(target):
            yield (page.parent / target.partition("#")[0]).resolve()


def expanded(pattern: str) -> list[str]:
    """`a/{b,c}.py` as `a/b.py` and `a/c.py`."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if found is None:
        return [pattern]
    return [
        each
        for choice in found[1].split(",")
        for each in expanded(pattern[: found.start()] + choice.strip() + pattern[found.end() :])
    ]


def paths_in_backticks(page: Path) -> Iterator[str]:
    """Paths below the checked folders, each a name or a glob, without line numbers and test names."""
    for _, code in _INLINE_CODE.findall(prose(page)):
        if not code.startswith(CHECKED_FOLDERS):
            continue
        for word in re.sub(r",\s+(?=[^{}]*\})", ",", code).split():
            if word.startswith(CHECKED_FOLDERS):
                yield from expanded(re.sub(r"(::.*|:\d+)$", "", word.rstrip(",;.")).rstrip("/"))


def exists(pattern: str) -> bool:
    return any(True for _ in ROOT.glob(pattern))


def long_lines(page: Path) -> Iterator[str]:
    """Lines of prose above the limit; rows of tables, pictures and single long words (code, links) are left out."""
    for line in prose(page).splitlines():
        words = len(_INLINE_CODE.sub("`code`", line).split())
        if len(line) > COLUMNS_MAX and words > 1 and not line.startswith(("|", "<", "#", "![")):
            yield line


@pytest.mark.parametrize("page", [*PAGES, *NOTES], ids=relative)
def test_prose_can_be_read_as_source(page):
    if page.is_relative_to(GENERATED):
        return
    found = list(long_lines(page))
    assert not found, f"{relative(page)}: lines above {COLUMNS_MAX} columns: {found}"


def test_architecture_is_short():
    words = len((ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").split())
    assert words <= ARCHITECTURE_WORDS_MAX, (
        f"ARCHITECTURE.md has {words} words; move details to docs/internals/ or docs/decisions/"
    )


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_relative_links_lead_somewhere(page):
    dead = [
        str(target) for target in links(page) if not target.exists() and not target.is_relative_to(GENERATED)
    ]
    assert not dead, f"{relative(page)} links to what is not there:\n" + "\n".join(dead)


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_paths_in_backticks_exist(page):
    missing = sorted({path for path in paths_in_backticks(page) if not exists(path)})
    assert not missing, f"{relative(page)} names what is not there:\n" + "\n".join(missing)


def test_no_page_is_an_orphan():
    start = {page for page in PAGES if page.parent == ROOT} | {DOCS / "index.md"} & set(PAGES)
    reached, waiting = set(start), list(start)
    while waiting:
        for target in links(waiting.pop()):
            if target.suffix == ".md" and target.is_file() and target not in reached:
                reached.add(target)
                waiting.append(target)
    orphans = [relative(page) for page in PAGES if page not in reached]
    assert not orphans, "no other page leads to these:\n" + "\n".join(orphans)


@pytest.mark.parametrize(
    ("pattern", "paths"),
    [
        ("a/b.py", ["a/b.py"]),
        ("a/{b,c}.py", ["a/b.py", "a/c.py"]),
        ("{a,b}/{c,d}", ["a/c", "a/d", "b/c", "b/d"]),
    ],
)
def test_braces_are_expanded(pattern, paths):
    assert expanded(pattern) == paths


def test_what_is_looked_at(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "[one](one.md#part) [here](#part) [out](https://example.org) `[no](link)` ![picture](two.svg)\n"
        "`python/bowstring/protocol/errors.py:12` `tests/unit/test_docs.py::test_x`, `pytest tests/none`,\n"
        "`engine/storage/{a, b}.py`\n"
        "```\n[fenced](none.md) `engine/none.py`\n```\n"
    )
    assert [target.name for target in links(page)] == ["one.md", "two.svg"]
    assert list(paths_in_backticks(page)) == [
        "python/bowstring/protocol/errors.py",
        "tests/unit/test_docs.py",
        "engine/storage/a.py",
        "engine/storage/b.py",
    ]
