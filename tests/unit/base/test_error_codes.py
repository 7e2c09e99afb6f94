"""Error codes stand once, in python/bowstring/protocol/errors.py; native code and Java repeat some rows of it."""

import re
from pathlib import Path

from bowstring.protocol.errors import Errors

ROOT = Path(__file__).resolve().parents[3]
ENUM_ROW = re.compile(r"^    ([A-Z][A-Z_]+) = (\d+)$", re.M)
JAVA_ROW = re.compile(r"^  ([A-Z][A-Z_]+)\((-?\d+), ", re.M)
JAVA = "python/bowstring/spark/java/bowstring/spark/wire/ErrorCode.java"


def test_codes_are_those_of_the_table():
    rows = ENUM_ROW.findall((ROOT / "_native" / "base/error_codes.pxd").read_text())
    assert rows
    assert {row: int(code) for row, code in rows} == {row: getattr(Errors, row).code for row, _ in rows}


def test_codes_of_the_spark_engine_are_those_of_the_table():
    rows = {name: int(code) for name, code in JAVA_ROW.findall((ROOT / JAVA).read_text())}
    rows.pop("OTHER", None)
    assert len(rows) > 40 and rows == {name: getattr(Errors, name).code for name in rows}


def test_no_python_file_repeats_a_code():
    names = {name for name, row in vars(Errors).items() if hasattr(row, "retriable") and row.code > 0}
    literal = re.compile(rf"\b(?:[A-Z]+_)?({'|'.join(sorted(names))})\b *(?:: *Final)? *= *-?\d+$", re.M)
    for folder in ("engine", "python/bowstring", "bench"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != ROOT / "python/bowstring/protocol/errors.py":
                assert not literal.search(path.read_text()), path
