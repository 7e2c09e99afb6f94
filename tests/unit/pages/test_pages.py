"""Every code block of README and docs is run, checked, or excused; here run those that need no server and no Spark."""

import contextlib
import re
from collections import Counter

import pytest

import bowstring
from bowstring.engine.configs import ConfigError
from bowstring.pipeline.declaration import PipelineError
from tests.support.page_run import DOCUMENTED, PageRun, Place, check_install
from tests.support.pages import DOCS, LANGUAGES, PLAIN, ROOT, blocks, commands, home, name_of, pages, pages_of

# How many blocks of a page are not run; each says why in a comment above it.
NO_RUN = {
    "docs/guide/pipelines.md": 1,
    "docs/how-to/audit.md": 5,
    "docs/how-to/backup.md": 1,
    "docs/how-to/cluster.md": 2,
    "docs/how-to/command-line.md": 1,
    "docs/how-to/console.md": 6,
    "docs/how-to/container.md": 4,
    "docs/how-to/controllers.md": 3,
    "docs/how-to/install.md": 3,
    "docs/how-to/kafka-connect.md": 2,
    "docs/how-to/mirrormaker.md": 2,
    "docs/how-to/moving-a-cluster.md": 1,
    "docs/how-to/moving-from-kafka.md": 3,
    "docs/how-to/operate-a-cluster.md": 6,
    "docs/how-to/repair-metadata.md": 1,
    "docs/how-to/rest-proxy.md": 12,
    "docs/how-to/schema-registry.md": 6,
    "docs/how-to/security.md": 2,
    "docs/how-to/systemd.md": 1,
    "docs/how-to/upgrade.md": 1,
    "docs/tutorial/first-broker.md": 1,
    "docs/tutorial/first-spark-stream.md": 1,
}
# A group's first member does not wait for others.
AT_ONCE = {"group.initial.rebalance.delay.ms": 0}
# What stands in a block that no one would want to run is output or a picture.
COMMAND = re.compile(r"\s*(\$ |bowstring |pip |make |import |from \w+ import |docker |kafka-)")


@pytest.mark.parametrize("page", pages_of("unit"), ids=name_of)
def test_a_page(page, tmp_path, monkeypatch):
    """Its blocks run in one namespace, beside one broker if they need one."""
    runs = {block.language for block in blocks(page) if not block.no_run} & {"python", "bash"}
    with contextlib.ExitStack() as stack:
        servers = (
            stack.enter_context(bowstring.Broker(config=AT_ONCE)).bootstrap_servers if runs else DOCUMENTED
        )
        monkeypatch.setenv("BOWSTRING_BOOTSTRAP_SERVERS", servers)
        PageRun(Place(tmp_path, servers)).run(page)


def test_no_other_blocks_are_left_out():
    excused = Counter(name_of(page) for page in pages() for block in blocks(page) if block.no_run)
    assert excused == NO_RUN


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_names_its_language(page):
    for block in blocks(page):
        assert block.language in LANGUAGES, block.where
        if block.language in PLAIN:
            assert not COMMAND.match(block.text), f"{block.where} looks like a program: name its language"


def test_every_page_is_run_somewhere():
    assert {home(page) for page in pages()} == {"install", "spark", "unit"}
    assert ROOT / "README.md" in pages_of("install")


def test_readme_has_the_two_commands_for_developers_and_eight_lines_of_python():
    readme = ROOT / "README.md"
    targets = (ROOT / "Makefile").read_text()
    for command in ("make run", "make test"):
        assert f"`{command}`" in readme.read_text() and f"\n{command.removeprefix('make ')}:" in targets
    (example,) = (block for block in blocks(readme) if block.language == "python")
    assert len(example.text.splitlines()) == 8


def test_commands_of_a_block():
    (block,) = (each for each in blocks(ROOT / "README.md") if each.language == "bash")
    first, second = commands(block)
    assert first == "pip install -v ." and second.startswith("bowstring serve")
    joined = block._replace(text="one \\\n  --two   # three\n# four\nprintf 'a # b'\n\nfive 'six\nseven'")
    assert commands(joined) == ["one \\\n  --two   # three", "printf 'a # b'", "five 'six\nseven'"]


def run(text, folder):
    page = folder / "page.md"
    page.write_text(text)
    PageRun(Place(folder)).run(page)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("```python\nx = 1 / 0\n```", ZeroDivisionError),
        ("```python\nprint(1 + 1)  # 3\n```", AssertionError),
        ("```bash\nfalse | true\n```", AssertionError),
        ("```properties\nlog.retenton.ms=5\n```", ConfigError),
        ('```toml\n"num.partitions" = "many"\n```', ConfigError),
        ("```toml\n[source.flights]\n```", PipelineError),
        ("```json\n{1}\n```", ValueError),
        ("```cobol\nSTOP RUN\n```", AssertionError),
        ("```python spark\nx = 1\n```", AssertionError),
        ("```python\nx = 1", AssertionError),
        ('```python title="test_x.py"\ndef test_x():\n    assert False\n```', AssertionError),
    ],
)
def test_what_is_wrong_with_a_page_is_found(text, error, tmp_path):
    with pytest.raises(error):
        run(text, tmp_path)


def test_what_steers_a_run(tmp_path):
    run(
        "<!-- python\nx = 1\n-->\n\n```python\nprint(x)  # 1\n```\n\n"
        "<!-- no-run: it would fail -->\n```python\nx = 1 / 0\n```\n\n"
        '1. a file\n\n   ```json title="a.json"\n   {"a": 1}\n   ```\n\n```bash\ngrep a a.json\n```\n',
        tmp_path,
    )


def test_extras_that_are_not_there_are_found():
    with pytest.raises(AssertionError):
        check_install("pip install 'bowstring[colour]'")


def test_page_folders_have_an_index_that_names_every_page():
    for folder in ("tutorial", "how-to", "guide"):
        listed = (DOCS / folder / "index.md").read_text()
        for page in (DOCS / folder).glob("*.md"):
            assert page.name == "index.md" or f"]({page.name})" in listed, page
            assert page.name == "index.md" or f"]({folder}/{page.name}" in (DOCS / "index.md").read_text()
