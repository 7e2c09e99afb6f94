"""The audit file."""

import json
import os
import stat

import pytest

from bowstring.engine.security import audit_log
from bowstring.engine.security.audit_log import QUEUE_MAX, AuditLog
from bowstring.engine.security.decided import Decided
from tests.support.waiting import wait_until

DENIED = Decided("User:ä", "10.0.0.1", 4, 2, "t\n1", False, 0)
ALLOWED = Decided("User:bob", "::1", 11, 4, "kafka-cluster", True, 44)


@pytest.fixture
def start(tmp_path):
    running = []

    def open_log(path=tmp_path / "audit.jsonl"):
        running.append(AuditLog(str(path)))
        return running[-1]

    yield open_log
    for each in running:
        each.stop()


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_lines_say_who_did_what_to_which_resource_from_where(start, tmp_path):
    audit = start()
    audit.note(DENIED)
    audit.note(ALLOWED)
    audit.stop()
    denied, allowed = lines(tmp_path / "audit.jsonl")
    assert denied.pop("time").endswith("Z")
    assert denied == {
        "principal": "User:ä",
        "host": "10.0.0.1",
        "operation": "Write",
        "resource_type": "Topic",
        "resource": "t\n1",
        "allowed": False,
        "api": "Produce",
    }
    assert (allowed["operation"], allowed["resource_type"]) == ("AlterConfigs", "Cluster")
    assert (allowed["allowed"], allowed["api"]) == (True, "IncrementalAlterConfigs")


def test_only_the_owner_reads_the_file(start, tmp_path):
    path = tmp_path / "audit.jsonl"
    path.write_text("")
    path.chmod(0o644)
    start()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_renamed_file_gets_no_more_lines(start, tmp_path):
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    audit = start()
    audit.note(DENIED)
    wait_until(lambda: audit.written == 1)
    path.rename(moved)
    audit.note(ALLOWED)
    audit.stop()
    assert [each["allowed"] for each in lines(moved)] == [False]
    assert [each["allowed"] for each in lines(path)] == [True]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_finds_no_room_is_counted_and_said(start, tmp_path, monkeypatch):
    audit = start()
    monkeypatch.setattr(os, "stat", lambda *args, **options: (_ for _ in ()).throw(OSError(5, "broken")))
    for _ in range(QUEUE_MAX + 3):
        audit.note(DENIED)
    audit.note_lost(2)
    assert audit.dropped == 5
    monkeypatch.undo()
    audit.stop()
    found = lines(tmp_path / "audit.jsonl")
    assert sum(1 for each in found if "principal" in each) == QUEUE_MAX
    assert [each["dropped"] for each in found if "dropped" in each] == [5]


def test_a_link_is_not_followed(start, tmp_path):
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="audit"):
        start()
    assert not (tmp_path / "other").exists()


def test_a_folder_or_a_pipe_is_refused(start, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match=r"pipe|directory"):
            start(path)


def test_a_path_that_cannot_be_opened_closes_no_file_of_others(start, tmp_path, monkeypatch):
    attempts = []

    def refused(path):
        attempts.append(path)
        raise OSError(13, "refused")

    audit = start()
    monkeypatch.setattr(audit_log, "_RETRY_S", 0.001)
    with monkeypatch.context() as patched:
        patched.setattr(audit_log, "_opened", refused)
        (tmp_path / "audit.jsonl").unlink()
        audit.note(DENIED)
        wait_until(lambda: attempts)
        others = [os.open(tmp_path, os.O_RDONLY) for _ in range(30)]
        seen = len(attempts)
        wait_until(lambda: len(attempts) > seen + 2)
    for each in others:
        os.close(each)
    audit.stop()
    assert len(lines(tmp_path / "audit.jsonl")) == 1


def test_a_disk_that_is_full_for_a_while_leaves_whole_lines(start, tmp_path, monkeypatch):
    written, failures = os.write, []

    def half(file, data):
        if failures:
            return written(file, data)
        failures.append(written(file, data[: len(data) // 2]))
        monkeypatch.setattr(os, "write", full_once)
        return failures[0]

    def full_once(file, data):
        monkeypatch.setattr(os, "write", written)
        raise OSError(28, "full")

    audit = start()
    monkeypatch.setattr(audit_log, "_RETRY_S", 0.001)
    monkeypatch.setattr(os, "write", half)
    audit.note(DENIED)
    wait_until(lambda: audit.written == 1)
    audit.note(ALLOWED)
    audit.stop()
    assert [each["allowed"] for each in lines(tmp_path / "audit.jsonl")] == [False, True]
