"""The error codes that native code names are those of the table."""

import re
from pathlib import Path

from bowstring.engine.errors import Errors

ROOT = Path(__file__).resolve().parents[3]
ENUM_ROW = re.compile(r"^    ([A-Z][A-Z_]+) = (\d+)$", re.M)


def test_codes_are_those_of_the_table():
    rows = ENUM_ROW.findall((ROOT / "_native" / "error_codes.pxd").read_text())
    assert rows
    assert {row: int(code) for row, code in rows} == {row: getattr(Errors, row).code for row, _ in rows}
