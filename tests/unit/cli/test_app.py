"""A command line imports the command that it names, and nothing that makes every start slow."""

import subprocess
import sys

from bowstring.cli.app import ROWS, application
from tests.support.waiting import HANG_S

CODE = """
import sys
from bowstring.cli.app import application
application(["topics", "list"])
print(*(name for name in sys.modules if name.startswith("bowstring.cli.") or name == "pydantic"))
"""


def test_a_command_imports_itself():
    ran = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    loaded = set(ran.stdout.split())
    others = {f"bowstring.cli.{row.module}" for row in ROWS} - {
        "bowstring.cli.topics",
        "bowstring.cli.version",
    }
    assert "bowstring.cli.topics" in loaded
    assert not loaded & (others | {"pydantic"})


def test_what_names_no_command_has_all():
    for arguments in ((), ("--help",), ("no-such-command",)):
        app = application(arguments)
        assert len(app.registered_commands) + len(app.registered_groups) == len(ROWS)
