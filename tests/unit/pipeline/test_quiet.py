"""What a pipeline's JVM says is passed on, without its chatter."""

import os
import subprocess
import sys

from bowstring.pipeline import quiet
from tests.support.waiting import HANG_S

CODE = """
import subprocess, sys, threading
from bowstring.pipeline.quiet import without_chatter
with without_chatter():
    child = subprocess.Popen([sys.executable, "-c", '''
import sys, time
sys.stderr.write("WARNING: Using incubator modules: x\\\\nan error\\\\n")
sys.stderr.flush()
sys.stdin.read()
sys.stderr.write("later\\\\n")
'''], stdin=subprocess.PIPE)
print("our own", file=sys.stderr, flush=True)
child.communicate()
for thread in threading.enumerate():  # the last is still to be passed on
    if thread.name == "spark-stderr":
        thread.join()
"""


def test_only_chatter_is_dropped():
    ran = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, timeout=HANG_S, check=True
    )
    assert sorted(ran.stderr.splitlines()) == ["an error", "later", "our own"]


def test_the_log_settings_are_there_and_give_way():
    (option,) = quiet.log_settings({}).values()
    assert option == f"-Dlog4j2.configurationFile={quiet.LOG_SETTINGS.as_uri()}"
    assert os.path.exists(quiet.LOG_SETTINGS)
    assert quiet.log_settings({quiet.JAVA_OPTIONS: "-Dlog4j2.configurationFile=mine"}) == {}
