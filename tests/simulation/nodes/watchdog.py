"""Ends a run in which a node's code never returns, or keeps the loop busy while no simulated time passes."""

import signal
import traceback
from contextlib import contextmanager

# Of CPU time, so that a busy machine does not count. The longest step of a sound run takes a small part of it.
LOOK_S = 3.0
STACK_LINES = 30


class EndlessError(KeyboardInterrupt):
    """Passes through `except Exception`, and asyncio passes it on."""


@contextmanager
def watchdog(kernel):
    """While it is open, two looks at the same simulated time break the rule EndsEachStep.

    Raises:
        EndlessError: In the code that does not end.
    """
    seen = -1

    def look(signum, frame):
        nonlocal seen
        if kernel.now == seen and not kernel.is_over:
            stack = "".join(traceback.format_stack(frame)[-STACK_LINES:])
            kernel.violated("EndsEachStep", f"no simulated time passes in {LOOK_S} s of CPU time\n{stack}")
            raise EndlessError
        seen = kernel.now

    before = signal.signal(signal.SIGVTALRM, look)
    signal.setitimer(signal.ITIMER_VIRTUAL, LOOK_S, LOOK_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
