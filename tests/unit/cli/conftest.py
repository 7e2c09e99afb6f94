import json
import os
import subprocess
import sys
import uuid

import pytest

from bowstring.cli import run


class Result:
    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err

    @property
    def json(self):
        return json.loads(self.out)

    @property
    def lines(self):
        return self.out.splitlines()


@pytest.fixture(scope="session")
def bootstrap(request):
    running = os.environ.get("BOWSTRING_TEST_BOOTSTRAP")
    return running or request.getfixturevalue("bowstring_broker").bootstrap_servers


@pytest.fixture
def cli(bootstrap, monkeypatch):
    """Runs a command in a process of its own, as a shell would."""
    environment = os.environ | {"BOWSTRING_BOOTSTRAP_SERVERS": bootstrap, "COLUMNS": "120", "NO_COLOR": "1"}

    def call(*arguments, stdin=b"", timeout=60):
        done = subprocess.run(
            [sys.executable, "-m", "bowstring", *map(str, arguments)],
            input=stdin,
            capture_output=True,
            env=environment,
            timeout=timeout,
            check=False,
        )
        return Result(done.returncode, done.stdout.decode(), done.stderr.decode())

    return call


@pytest.fixture
def offline(capsys):
    """Runs a command that needs no broker inside the test."""

    def call(*arguments):
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Result(code, captured.out, captured.err)

    return call


@pytest.fixture
def topic():
    return f"t-{uuid.uuid4().hex[:12]}"
