"""Code blocks of README and docs: their position, their kind, and the tests that run them.

A fence names its language. `title="name"` saves the block under that name; a Python block whose name begins with test_
runs with pytest. GitHub and the docs site understand both, other words in a fence only GitHub. Python that names
bowstring.spark, and SQL, need a Spark session. HTML comments, which no reader sees, steer the rest:

    <!-- no-run: why -->      the next block is not run; NO_RUN in tests/unit/pages/test_pages.py lists all of these
    <!-- python … -->         code that runs at this place, unseen; `bash` likewise
    <!-- stop the broker -->  ends the server that the page has started
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.support.waiting import HANG_S

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"
# `make docs` generates them.
GENERATED: Final = DOCS / "reference"
STOP: Final = "stop"
# Languages of blocks that are not code: pictures of threads, output, frames, templates of pages.
PLAIN: Final = ("", "text", "markdown")
LANGUAGES: Final = (
    "python",
    "bash",
    "sql",
    "toml",
    "properties",
    "json",
    "yaml",
    "ini",
    "javascript",
    *PLAIN,
    STOP,
)

_FENCE: Final = re.compile(
    r"^(?P<indent> *)(?P<fence>`{3,}|~{3,}) *(?P<language>[\w+-]*)(?: title=\"(?P<title>[^\"]+)\")?(?P<rest>.*)$"
)
_WAIT: Final = re.compile(r"\b(timeout=|result\(|flush\()(?:5|10|30)\b")
_UNSEEN: Final = re.compile(r"^<!-- (?P<language>python|bash)$")
_NO_RUN: Final = re.compile(r"^ *<!-- no-run: (?P<reason>.+) -->$")


def patient(code: str) -> str:
    """Returns an example that waits for what must come as long as the slowest machine needs."""
    return _WAIT.sub(rf"\g<1>{HANG_S:g}", code)


class Block(NamedTuple):
    """A block of a page.

    Attributes:
        page: its file.
        line: number of the block's first line in the file.
        section: the heading above it.
        language: one of LANGUAGES.
        title: file name of the block; empty if it has none.
        text: its lines without the indentation of the fence.
        no_run: why it is not run; empty if it is.
        unseen: whether it is in an HTML comment.
    """

    page: Path
    line: int
    section: str
    language: str
    title: str
    text: str
    no_run: str
    unseen: bool

    @property
    def where(self) -> str:
        """`docs/page.md:12`."""
        return f"{name_of(self.page)}:{self.line}"


def pages() -> list[Path]:
    """Returns README and every page of docs that is not generated."""
    written = (page for page in DOCS.rglob("*.md") if not page.is_relative_to(GENERATED))
    return [ROOT / "README.md", *sorted(written)]


def blocks(page: Path) -> list[Block]:
    """Returns the blocks of a page in order."""
    return list(_blocks(page))


def _blocks(page: Path) -> Iterator[Block]:
    lines = enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
    section = reason = ""
    for number, line in lines:
        if heading := re.match(r"#+ (.*)", line):
            section = heading[1]
        elif line == "<!-- stop the broker -->":
            yield Block(page, number, section, STOP, "", "", "", True)
        elif unseen := _UNSEEN.match(line):
            text = _until(lines, "-->", "")
            yield Block(page, number + 1, section, unseen["language"], "", text, "", True)
        elif excuse := _NO_RUN.match(line):
            reason = excuse["reason"]
        elif fence := _FENCE.match(line):
            assert not fence["rest"].strip(), f"{page}:{number}: the docs site does not read this fence"
            text = _until(lines, fence["fence"], fence["indent"])
            name = fence["title"] or ""
            yield Block(page, number + 1, section, fence["language"], name, text, reason, False)
            reason = ""


def _until(lines: Iterator[tuple[int, str]], end: str, indent: str) -> str:
    text: list[str] = []
    for _, line in lines:
        if line.strip() == end:
            return "\n".join(text)
        text.append(line.removeprefix(indent))
    raise AssertionError(f"a block does not end with {end}")


def home(page: Path) -> str:
    """Returns the folder of the tests that run a page: `install` if it starts servers, `spark`, else `unit`."""
    found = [block for block in blocks(page) if not block.no_run]
    if any(is_server(command) for block in found for command in commands(block)):
        return "install"
    return "spark" if any(needs_spark(block) for block in found) else "unit"


def needs_spark(block: Block) -> bool:
    """Whether a block runs in a Spark session."""
    return block.language == "sql" or (block.language == "python" and "bowstring.spark" in block.text)


def pages_of(folder: str) -> list[Path]:
    """Returns the pages with blocks that the tests in `folder` run."""
    runnable = (page for page in pages() if any(block.language not in PLAIN for block in blocks(page)))
    return [page for page in runnable if home(page) == folder]


def commands(block: Block) -> list[str]:
    """Returns the commands of a bash block without comments; a command continues after a backslash or inside quotes."""
    if block.language != "bash":
        return []
    found: list[str] = []
    for line in block.text.splitlines():
        if found and (found[-1].endswith("\\") or found[-1].count("'") % 2):
            found[-1] += f"\n{line}"
        elif command := re.sub(r"(^|\s{2,})# .*", "", line).strip():
            found.append(command)
    return found


def is_server(command: str) -> bool:
    """Whether a command runs until it is stopped."""
    return command.startswith(("bowstring serve", "bowstring cluster start"))


def name_of(page: Path) -> str:
    """Returns a page's path as the id of a test."""
    return str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else str(page)
