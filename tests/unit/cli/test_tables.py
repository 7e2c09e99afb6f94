"""Tables on terminals and in pipes: no word is cut, whatever the width."""

import ast
import io
import random
import uuid
from pathlib import Path

import pytest
from rich.console import Console

import bowstring
from bowstring.cli import output, run
from bowstring.cli.tables import FittedTable, fitted
from bowstring.clients.admin.admin import Admin
from bowstring.clients.admin.results import PartitionProducer
from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from bowstring.clients.records import TopicPartition
from bowstring.cluster.certificates import Authority
from tests.support.waiting import HANG_S

WIDTH = 80
CLI = Path(output.__file__).parent
# Modules that tests below do not run with tables: pipelines need Spark, the audit needs counts (tests/system).
ELSEWHERE = {"audit", "output", "pipeline"}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def lines_of(table, width, file):
    Console(file=file, width=width, color_system=None, soft_wrap=not file.isatty()).print(table, crop=False)
    return file.getvalue().splitlines()


def words_of(lines):
    return {word for line in lines for word in line.split() if set(word) != {"─"}}


def a_table(rng):
    """Columns and rows of words; each cell has a word that nothing else has."""
    columns = [f"c{index} " + "h" * rng.randrange(9) for index in range(rng.randint(1, 12))]
    rows = [
        [
            rng.choice((None, rng.randrange(10**9), f"r{row}-{index} " + "word " * rng.choice((0, 0, 1, 9))))
            for index in range(len(columns))
        ]
        for row in range(rng.randrange(6))
    ]
    return columns, rows


@pytest.mark.parametrize("seed", range(50))
def test_every_word_is_whole_and_there(seed):
    rng = random.Random(seed)
    columns, rows = a_table(rng)
    words = {
        word
        for line in [columns, *rows]
        for cell in line
        for word in ("–" if cell is None else f"{cell:,}" if isinstance(cell, int) else cell).split()
    }
    piped = lines_of(FittedTable(columns, rows), WIDTH, io.StringIO())
    assert words_of(piped) == words and len(piped) == 2 + len(rows)
    for width in (40, WIDTH, 200):
        shown = lines_of(FittedTable(columns, rows), width, Terminal())
        assert words_of(shown) == words
        assert max(map(len, shown)) <= width


def test_a_word_that_is_wider_than_the_terminal_is_whole():
    path = "/data/" + "x" * 200
    shown = lines_of(
        FittedTable(["broker", "directory", "state"], [["1", path, "online"]]), WIDTH, Terminal()
    )
    assert {path, "online"} <= words_of(shown)


def test_widths_of_columns():
    assert list(fitted([5, 5], [5, 5], None)) == [{0: 5, 1: 5}]
    assert list(fitted([], [], 80)) == [{}]
    assert list(fitted([5, 30], [5, 4], 20)) == [{0: 5, 1: 12}], "the widest cells wrap"
    assert list(fitted([5, 10, 10], [5, 10, 10], 20)) == [{0: 5, 1: 10}, {0: 5, 2: 10}]
    assert list(fitted([5, 90], [5, 90], 20)) == [{0: 5, 1: 90}], "a word is never cut"


def printed(monkeypatch, arguments, file):
    """What a command prints to a file, with a terminal of 80 columns if it is one."""
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    monkeypatch.setenv("TERM", "dumb")  # without codes for bold text
    monkeypatch.setattr("sys.stdout", file)
    monkeypatch.setattr("sys.stderr", file)
    for each in (output.console, output.error_console):
        each.cache_clear()
    try:
        code = run([str(argument) for argument in arguments])
    finally:
        for each in (output.console, output.error_console):
            each.cache_clear()
    assert code == 0, file.getvalue()
    return file.getvalue().splitlines()


@pytest.fixture(scope="module")
def filled(bootstrap, admin, tmp_path_factory):
    """The parts of commands: a topic with records, a group, an id of a transaction and a plan."""
    topic = f"t-{uuid.uuid4().hex[:12]}"
    admin.create_topic(topic, 2)
    with bowstring.Producer(bootstrap, transactional_id=f"id-of-{topic}") as producer, producer.transaction():
        producer.send(topic, b"x")
    admin.alter_offsets(f"g-{topic}", {TopicPartition(topic, 0): 0})
    node = admin.describe_cluster().brokers[0].id
    plan = tmp_path_factory.mktemp("plans") / "plan.json"
    parts = ", ".join(f'{{"topic": "{topic}", "partition": {each}, "replicas": [{node}]}}' for each in (0, 1))
    plan.write_text(f'{{"version": 1, "partitions": [{parts}]}}')
    certificate = Authority(tmp_path_factory.mktemp("certs")).issue_broker()
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion("a-user", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256), "secret")]
    )
    parts = {"topic": topic, "group": f"g-{topic}", "plan": plan, "id": f"id-of-{topic}"}
    yield parts | {"certificate": certificate}
    admin.delete_topics([topic])


COMMANDS = [
    "brokers describe",
    "certs show {certificate}",
    "cluster status",
    "cluster top --once --interval 0.2",
    "configs describe --topic {topic} --all",
    "configs describe --topic {topic} --all --doc",
    "features describe",
    "groups list",
    "groups lag {group}",
    "groups top {group} --once",
    "groups reset-offsets {group} --to-earliest",
    "leaders elect --topic {topic}",
    "quorum describe",
    "reassign verify {plan}",
    "topics list --internal",
    "topics describe {topic}",
    "topics top {topic} --once",
    "transactions list",
    "transactions describe {id}",
    "transactions find-hanging --topic {topic}",
    "users list",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_cuts_no_word(command, filled, bootstrap, monkeypatch):
    """What only a cluster does is answered here."""
    monkeypatch.setenv("BOWSTRING_BOOTSTRAP_SERVERS", bootstrap)
    elected = {TopicPartition("a-topic", 0): None}
    hangs = PartitionProducer(TopicPartition("a-topic", 0), 1, 2, 3, 4, 5)
    monkeypatch.setattr(Admin, "list_reassignments", lambda *_, **__: {})
    monkeypatch.setattr(Admin, "elect_leaders", lambda *_, **__: elected)
    monkeypatch.setattr(Admin, "find_hanging_transactions", lambda *_, **__: [hangs])
    arguments = [*command.format(**filled).split(), "--timeout", HANG_S]
    if command.startswith("certs"):  # asks no broker
        del arguments[-2:]
    piped = printed(monkeypatch, arguments, io.StringIO())
    shown = printed(monkeypatch, arguments, Terminal())
    assert any("──" in line for line in piped), "there is no table"
    # Numbers change meanwhile; the path of a directory may be wider than the terminal.
    letters = [{word for word in words_of(each) if word[0].isalpha()} for each in (piped, shown)]
    assert letters[1] <= letters[0]
    title = 1 if not piped[1].startswith("──") else 0
    assert all(len(line) <= WIDTH or "/" in line for line in shown[title:])


def test_every_command_with_a_table_is_run_here():
    printing = set()
    for path in CLI.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id in ("print_table", "table_on_stderr", "FittedTable"):
                    printing.add(path.stem)
                assert node.func.id != "Table" or path.stem == "tables"
    run_here = {command.split()[0] for command in COMMANDS}
    of_groups = {"group_offsets": "groups", "group_top": "groups", "topic_top": "topics"}
    of_groups |= {"cluster_top": "cluster"}
    assert {of_groups.get(each, each) for each in printing} <= run_here | ELSEWHERE
