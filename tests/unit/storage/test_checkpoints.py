"""Offset checkpoints: Kafka's text, replaced whole, damage named."""

import pytest

from bowstring.engine.storage.checkpoints import (
    CheckpointError,
    checked_offsets,
    read_offsets,
    replace_file,
    write_offsets,
)


def test_what_is_written_is_kafkas_text_and_reads_back(tmp_path):
    path = tmp_path / "recovery-point-offset-checkpoint"
    offsets = {("a", 0): 5, ("a", 11): 0, ("b.c_d-1", 2): 2**62}
    write_offsets(path, offsets)
    assert path.read_text() == "0\n3\na 0 5\na 11 0\nb.c_d-1 2 4611686018427387904\n"
    assert read_offsets(path) == offsets
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_file_has_no_entries(tmp_path):
    assert read_offsets(tmp_path / "none") == {}


@pytest.mark.parametrize(
    "text, where",
    [
        ("", ":1:"),
        ("1\n0\n", ":1:"),
        ("0\n1\n", ":2:"),
        ("0\n1\na 0\n", ":3:"),
        ("0\n1\na x 0\n", ":3:"),
        ("0\n2\na 0 1\nb 0 1 2\n", ":4:"),
        ("0\n1\na 0 -5\n", ":3:"),
        ("\0" * 512, ":1:"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path, text, where):
    path = tmp_path / "checkpoint"
    path.write_text(text)
    with pytest.raises(CheckpointError, match=where):
        checked_offsets(path)
    assert read_offsets(path) == {}
    assert path.read_text() == text


def test_bytes_that_are_no_text(tmp_path, caplog):
    path = tmp_path / "recovery-point-offset-checkpoint"
    path.write_bytes(b"\xff\xfe\0")
    with pytest.raises(CheckpointError, match=":1: expected text"):
        checked_offsets(path)
    with caplog.at_level("WARNING", "bowstring"):
        assert read_offsets(path) == {}
    (line,) = caplog.records
    assert str(path) in line.facts["detail"] and "checks all records" in line.facts["consequence"]


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    replace_file(path, "new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
