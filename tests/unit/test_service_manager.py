"""Messages to systemd's notification socket."""

import socket

import pytest

from bowstring.service_manager import NOTIFY_SOCKET, notify
from tests.support.waiting import HANG_S


@pytest.mark.parametrize("abstract", [False, True])
def test_facts_go_to_the_socket_in_one_datagram(tmp_path, monkeypatch, abstract):
    name = f"@bowstring-{tmp_path.name}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("\0" + name[1:] if abstract else name)
        manager.settimeout(HANG_S)
        monkeypatch.setenv(NOTIFY_SOCKET, name)
        notify(READY="1", STATUS="serving as node 1")
        assert manager.recv(4096) == b"READY=1\nSTATUS=serving as node 1\n"


def test_nobody_is_told_without_a_socket(monkeypatch):
    monkeypatch.delenv(NOTIFY_SOCKET, raising=False)
    notify(READY="1")
    monkeypatch.setenv(NOTIFY_SOCKET, "tcp:elsewhere")
    notify(READY="1")


def test_a_socket_that_is_gone_is_no_failure(tmp_path, monkeypatch, caplog):
    monkeypatch.setenv(NOTIFY_SOCKET, str(tmp_path / "gone"))
    notify(STOPPING="1")
    assert "the service manager could not be told" in caplog.text
