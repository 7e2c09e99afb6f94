"""`bowstring cluster start` as a process."""

import os
import signal
import subprocess
import sys

from tests.support.readable import readable
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S


class Started:
    """The command in a separate process; its output is read as it comes."""

    def __init__(self, directory, port, *options):
        self.text = ""
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "bowstring", "cluster", "start", "--data", str(directory)),
                *("--port", str(port), *options),
            ],
            stderr=subprocess.PIPE,
            env=os.environ | {"NO_COLOR": "1"},
        )

    def wait_for(self, words):
        while words not in self.text:
            assert readable(self.process.stderr, HANG_S), self.text
            said = os.read(self.process.stderr.fileno(), 1 << 16).decode()
            assert said, f"no {words!r}: {self.text}"
            self.text += said
        return self.text

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        status = self.process.wait(HANG_S)
        self.process.stderr.close()
        return status


def port_for_three():
    """A port with free ones after it and 100 above."""
    return steady_port(beside=(1, 2, 100, 101, 102))
