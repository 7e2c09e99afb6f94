"""Runs a node like `bowstring serve`, until a signal stops it or the process that started it is gone.

Standard input is the end of a pipe that the starting process holds open. Its end is seen however that process
ends. PR_SET_PDEATHSIG would look at the thread that started the node instead. A process of its own watches,
so that a node that SIGSTOP holds ends, too.
"""

import gc
import os
import select
import signal
import sys
from contextlib import suppress
from typing import Final

# A clean stop takes less.
STOP_MAX_S: Final = 20.0
_COMMAND: Final = b"starter-watch"
"""How ps and top show the process; they show at most 15 characters."""


def _watch_starter() -> None:
    """Forks the process that watches. Call before this process has other threads.

    That process ends with the node, whose end of a pipe the kernel then closes.
    """
    node, (ended, held) = os.getpid(), os.pipe()
    if os.fork():
        os.close(ended)  # `held` stays open as long as the node runs
        return
    try:
        os.close(held)
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # which a group or a terminal may send
            signal.signal(each, signal.SIG_IGN)
        with suppress(OSError), open("/proc/self/comm", "wb") as name:
            name.write(_COMMAND)
        _end_with_starter(node, ended)
    finally:
        os._exit(0)


def _end_with_starter(node: int, ended: int) -> None:
    starter = sys.stdin.fileno()
    changes = select.poll()
    changes.register(starter, select.POLLIN)
    changes.register(ended, select.POLLIN)
    if ended in dict(changes.poll()):
        return
    changes.unregister(starter)
    os.kill(node, signal.SIGTERM)
    os.kill(node, signal.SIGCONT)
    if not changes.poll(STOP_MAX_S * 1000):
        os.kill(node, signal.SIGKILL)


def main() -> None:
    """Runs the node; the arguments are those of `bowstring serve`."""
    gc.disable()  # as for `bowstring serve`, which turns it on
    _watch_starter()
    from bowstring.serve import main as serve

    # The links of a cluster find their nodes by the descriptors of processes.
    sys.exit(serve(sys.argv[1:], may_dump_core=True))


if __name__ == "__main__":
    main()
