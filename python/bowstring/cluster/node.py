"""Runs a node like `bowstring serve`, until a signal stops it or the process that started it is gone.

Standard input is the end of a pipe that the starting process holds open. Its end is seen however that process
ends. PR_SET_PDEATHSIG would look at the thread that started the node instead.
"""

import gc
import os
import signal
import sys
import threading
import time

# A clean stop takes less.
STOP_MAX_S = 20.0


def _stop_with_starter() -> None:
    while os.read(0, 1024):
        pass  # nothing is ever written
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_MAX_S)
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Runs the node; the arguments are those of `bowstring serve`."""
    gc.disable()  # as for `bowstring serve`, which turns it on
    threading.Thread(target=_stop_with_starter, name="starter", daemon=True).start()
    from bowstring.serve import main as serve

    sys.exit(serve(sys.argv[1:]))


if __name__ == "__main__":
    main()
