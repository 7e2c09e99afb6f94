"""A broker with keys or passwords leaves no core file; others do, where the system writes them."""

import os
import resource
import signal

import pytest

from tests.support.secured_nodes import key_files
from tests.support.serving import Process, hear_hangups
from tests.support.waiting import wait_until


def with_core_files():
    hear_hangups()
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


@pytest.mark.parametrize(
    ("listener", "settings", "dumps"),
    [
        ("PLAINTEXT", {}, True),
        ("SSL", {}, False),
        ("CLIENTS", {"listener.security.protocol.map": "CLIENTS:SSL"}, False),
    ],
)
def test_a_core_file_is_left_without_secrets_only(tmp_path, listener, settings, dumps):
    settings = key_files(tmp_path) | settings | {"listeners": f"{listener}://127.0.0.1:0"}
    options = [each for name, text in settings.items() for each in ("--set", f"{name}={text}")]
    broker = Process("--data", str(tmp_path / "data"), *options, preexec_fn=with_core_files, cwd=tmp_path)
    broker.process.send_signal(signal.SIGSEGV)
    ended = wait_until(lambda: os.waitid(os.P_PID, broker.process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG))
    broker.stop()
    if dumps and ended.si_code != os.CLD_DUMPED:
        pytest.skip("this system writes no core files")
    assert ended.si_code == (os.CLD_DUMPED if dumps else os.CLD_KILLED)
