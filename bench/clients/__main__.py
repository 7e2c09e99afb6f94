"""Runs one client once and prints as JSON what it did: records, wall and CPU seconds of the timed part."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from bench.clients import consumers, producers

# (bootstrap, topic, records) -> a call to be timed, which says how many records it saw acknowledged or read.
Client = Callable[[str, str, int], Callable[[], int]]
CLIENTS: dict[str, Client] = {
    "bowstring-send-arrow": producers.bowstring_send_arrow,
    "bowstring-send": producers.bowstring_send,
    "confluent-produce": producers.confluent_produce,
    "kafka-python-send": producers.kafka_python_send,
    "bowstring-poll-arrow": consumers.bowstring_poll_arrow,
    "bowstring-poll-arrow-views": consumers.bowstring_poll_arrow_views,
    "bowstring-local": consumers.bowstring_local,
    "bowstring-local-two-threads": consumers.bowstring_local_two_threads,
    "bowstring-local-views": consumers.bowstring_local_views,
    "confluent-consume": consumers.confluent_consume,
}


def main() -> None:
    """One run; the client is made, and connected, before the clock starts."""
    name, bootstrap, topic, records = sys.argv[1:]
    call = CLIENTS[name](bootstrap, topic, int(records))
    cpu_before, started = time.process_time(), time.monotonic()
    done = call()
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_before
    print(json.dumps({"records": done, "seconds": seconds, "cpu_seconds": cpu_seconds}))


if __name__ == "__main__":
    main()
