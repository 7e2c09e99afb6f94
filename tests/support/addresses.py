"""Where doubles of brokers listen: at a loopback address that each pytest-xdist worker has to itself.

Brokers and clients of all tests use 127.0.0.1. A client tries for minutes to reach a broker that is gone, and the port of
that broker may by then be the one that a double got. So doubles listen where no client of another test looks.
"""

import os


def own_address() -> str:
    """Returns an IPv4 address of the loopback network: 127.1.N.1 for worker N, 127.1.0.1 without workers.

    127.0.1.1 is left out: Debian gives it to the host's name.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    # Those that replace crashed workers have higher numbers than any that is still there.
    return f"127.1.{int(worker.removeprefix('gw')) % 256}.1"
