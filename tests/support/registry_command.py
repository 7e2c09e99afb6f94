"""`bowstring registry` as a process."""

import os
import re
import subprocess
import sys

from tests.support.waiting import HANG_S


class RegistryCommand:
    """`bowstring registry` as a process on a free port.

    Attributes:
        url: of its API; empty if it did not start.
        text: what it wrote.
    """

    def __init__(self, *options, **environment):
        self.text = ""
        command = [sys.executable, "-m", "bowstring", "registry", "--port", "0", *options]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env=os.environ | environment
        )
        self.url = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.text += line
            if found := re.match(r"registry on (\S+)", line):
                self.url = found[1]
                break

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
        _, rest = self.process.communicate(timeout=HANG_S)
        self.text += rest
        return self.process.returncode
