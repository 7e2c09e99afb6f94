"""Classes and files have one name, so that a search for one finds the other."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# A file with a class of this many lines, or with only one public class, is named after it.
NAMESAKE_LINES = 80
OTHERWISE_NAMED = {
    "engine/controller/service.py": "QuorumController is Kafka's name; `service.py` is what runs a pure core",
    "engine/groups/modern/assignor.py": "what an assignor is, and the MemberSpec that it gets",
    "python/bowstring/clients/group/protocol_choice.py": "UndecidedMember is a member until its protocol is chosen",
    "python/bowstring/spark/python_source.py": "a class for each part that Spark asks of a source in Python",
    "python/bowstring/tables.py": "what `bowstring.tables` returns: Records and Scan",
}


def words_of(name: str) -> set[str]:
    """`log_directories` and `LogDirectory` to the same words, nearly: plurals end as singulars."""
    found = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", name)
    return {re.sub("(ie)?s$", "", word.lower().removesuffix("y")) for word in found}


def is_misnamed(path: Path, tree: ast.Module) -> bool:
    """Whether a file whose subject is a class has no class with its name: one name's words are in the other."""
    public = [
        node
        for node in tree.body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not node.name.endswith("Error")
    ]
    classes = [node for node in public if isinstance(node, ast.ClassDef)]
    has_large = any((node.end_lineno or 0) - node.lineno >= NAMESAKE_LINES for node in classes)
    if not has_large and (len(public) != 1 or not classes):
        return False
    file = words_of(path.stem)
    return not any(file <= (name := words_of(node.name)) or name <= file for node in classes)


def test_classes_and_files_have_one_name():
    misnamed = {
        str(path.relative_to(ROOT))
        for folder in ("engine", "python/bowstring")
        for path in (ROOT / folder).rglob("[!_]*.py")
        if is_misnamed(path, ast.parse(path.read_text(encoding="utf-8")))
    }
    assert misnamed - set(OTHERWISE_NAMED) == set(), (
        "name the file after its class, or the class after its file"
    )
    assert set(OTHERWISE_NAMED) - misnamed == set(), "these have one name: take them off the list"


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("log_manager.py", "class LogManager: ...", False),
        ("log_directories.py", "class LogDirectories: ...", False),
        ("log_directories.py", "class LogDirectory: ...", False),
        ("service.py", "class GroupCoordinatorService: ...", False),
        ("json_format.py", "class Json: ...", False),
        ("log_manager.py", "class TopicLogs: ...\nclass NoLogsError(Exception): ...", True),
        ("placement.py", "class Placed: ...\ndef place(): ...", False),
        ("placement.py", "class Placer:\n" + "    x = 0\n" * NAMESAKE_LINES + "def place(): ...", True),
    ],
)
def test_misnamed_files_are_found(name, text, wrong):
    assert is_misnamed(Path(name), ast.parse(text)) is wrong
