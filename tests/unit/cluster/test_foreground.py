"""`bowstring cluster start` reports nodes that end."""

import sys

import pytest
import typer

from bowstring.cli import cluster


def test_the_end_of_a_node_is_an_error_and_no_note(tmp_path, monkeypatch):
    """The node gets ready and is killed at once: before or after the command watches it."""
    program = tmp_path / "node"
    program.write_text('#!/bin/sh\necho "2026-01-01 00:00:00,000 INFO ready node"\nkill -9 $$\n')
    program.chmod(0o755)
    notes, errors = [], []
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(cluster, "print_note", notes.append)
    monkeypatch.setattr(cluster, "print_error", errors.append)
    with pytest.raises(typer.Exit) as ended:
        cluster.start(data=tmp_path / "data", brokers=1, controllers=None, port=30000, durability=None)
    assert ended.value.exit_code == 1
    assert "node 1 has ended: SIGKILL ended it" in errors[0]
    assert "no node runs any more" in errors[1]
    assert any("ready after" in each for each in notes)
    assert not any("ended" in each for each in notes)
