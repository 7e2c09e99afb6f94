"""Runs one client once and prints as JSON: records, wall and CPU seconds of the timed part."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from bench.clients import consumers, greedy, objects, producers, transactions

# (bootstrap, topic, records) -> the call to time, which returns the number of acknowledged or read records.
Client = Callable[[str, str, int], Callable[[], int]]
CLIENTS: dict[str, Client] = {
    "bowstring-send-arrow": producers.bowstring_send_arrow,
    "bowstring-send": producers.bowstring_send,
    "confluent-produce": producers.confluent_produce,
    "confluent-produce-tuned": producers.confluent_produce_tuned,
    "kafka-python-send": producers.kafka_python_send,
    "bowstring-greedy-produce": greedy.bowstring_greedy_produce,
    "bowstring-greedy-consume": greedy.bowstring_greedy_consume,
    "bowstring-transactions": transactions.bowstring_transactions,
    "confluent-transactions": transactions.confluent_transactions,
    "bowstring-poll-arrow": consumers.bowstring_poll_arrow,
    "bowstring-poll-arrow-views": consumers.bowstring_poll_arrow_views,
    "bowstring-paced": consumers.bowstring_paced,
    "bowstring-poll": consumers.bowstring_poll,
    "bowstring-poll-10000": consumers.bowstring_poll_10000,
    "bowstring-iterate": consumers.bowstring_iterate,
    "bowstring-local": consumers.bowstring_local,
    "bowstring-local-two-threads": consumers.bowstring_local_two_threads,
    "bowstring-local-views": consumers.bowstring_local_views,
    "confluent-consume": consumers.confluent_consume,
    "confluent-consume-tuned": consumers.confluent_consume_tuned,
    "bowstring-poll-json": objects.bowstring_poll_json,
    "bowstring-poll-avro": objects.bowstring_poll_avro,
    "confluent-json": objects.confluent_json,
    "confluent-json-tuned": objects.confluent_json_tuned,
    "confluent-avro": objects.confluent_avro,
    "confluent-avro-tuned": objects.confluent_avro_tuned,
}


def main() -> None:
    """Runs once; the client is created and connected before the clock starts."""
    name, bootstrap, topic, records = sys.argv[1:]
    call = CLIENTS[name](bootstrap, topic, int(records))
    cpu_before, started = time.process_time(), time.monotonic()
    done = call()
    seconds, cpu_seconds = time.monotonic() - started, time.process_time() - cpu_before
    print(json.dumps({"records": done, "seconds": seconds, "cpu_seconds": cpu_seconds}))


if __name__ == "__main__":
    main()
