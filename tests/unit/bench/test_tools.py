"""What Kafka's performance tools print is read right, and what they do not print is an error."""

import pytest

from bench.peers.install import PeerError
from bench.peers.tools import (
    Consumed,
    EndToEnd,
    Latency,
    Produced,
    parse_consumer,
    parse_end_to_end,
    parse_probe,
    parse_producer,
    producer_arguments,
)

# Lines as 4.3.1 prints them.
WINDOW = (
    "2489011 records sent, 497802.2 records/sec (47.47 MB/sec), 12.1 ms avg latency, 60.0 ms max latency."
)
PRODUCED = (
    "300000 records sent, 192061.459667 records/sec (18.32 MB/sec), 611.44 ms avg latency, "
    "958.00 ms max latency, 721 ms 50th, 943 ms 95th, 955 ms 99th, 958 ms 99.9th."
)
CONSUMED = (
    "2026-11-21 06:19:42:771, 2026-11-21 06:19:42:951, 28.6260, 159.0333, 300165, 1667583.3333, "
    "37, 143, 200.1819, 2099055.9441"
)


def test_the_producers_summary_is_the_line_with_percentiles():
    expected = Produced(300_000, 192061.459667, 611.44, 721.0, 955.0, 958.0)
    assert parse_producer([WINDOW, PRODUCED, ""]) == expected


def test_the_consumers_summary_is_found_among_its_warnings():
    lines = ["WARNING: option [x] is deprecated, use y", CONSUMED]
    assert parse_consumer(lines) == Consumed(300_165, 1667583.3333, 2099055.9441, 37)


def test_the_probes_line():
    line = "count=2000 mean_us=552.4 p50_us=443.2 p99_us=3572.0 p999_us=13387.8 max_us=21852.4"
    assert parse_probe([line]) == Latency(2000, 552.4, 443.2, 3572.0, 13387.8, 21852.4)


def test_end_to_end_latency():
    lines = ["0\t7.6", "Avg latency: 0.6692 ms", "Percentiles: 50th = 0, 99th = 4, 99.9th = 16"]
    assert parse_end_to_end(lines) == EndToEnd(0.6692, 0, 4, 16)


@pytest.mark.parametrize("parse", [parse_producer, parse_consumer, parse_probe, parse_end_to_end])
def test_output_without_a_summary_is_an_error_that_shows_it(parse):
    with pytest.raises(PeerError, match=r"no summary(.|\n)*broke down"):
        parse([WINDOW, "broke down"])


def test_producer_settings_follow_one_option():
    arguments = producer_arguments("h:1", "t", 10, 100, {"acks": "1", "linger.ms": "0"})
    assert arguments[-3:] == ["--command-property", "acks=1", "linger.ms=0"]
    assert "--command-property" not in producer_arguments("h:1", "t", 10, 100, {})
