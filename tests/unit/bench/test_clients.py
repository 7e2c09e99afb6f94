"""A client's run is judged by its own figures, and a client that fails is a peer's failure."""

import os

import pytest

from bench.cases.clients import LEAST_RECORDS, SLOWER, ClientRun, run_client, share_of
from bench.clients.__main__ import CLIENTS
from bench.clients.objects import AVRO, avro_format, json_format, order
from bench.peers.install import PeerError


class HereAsPeer:
    """Uses this process in place of the broker's."""

    pid = os.getpid()
    bootstrap = "127.0.0.1:1"


def test_figures_are_per_record_and_per_gigabyte():
    run = ClientRun(records=10_000_000, seconds=2.0, cpu_seconds=1.0, broker_cpu_seconds=0.5)
    assert run.figures("ours") == {
        "ours_records_per_second": 5e6,
        "ours_client_cpu_ns_per_record": 100.0,
        "ours_broker_cpu_seconds_per_gb": 0.5,
    }


def test_slower_clients_get_fewer_records():
    assert SLOWER.keys() <= CLIENTS.keys()
    assert share_of("bowstring-send-arrow", 6_000_000) == 6_000_000
    assert share_of("kafka-python-send", 6_000_000) == 100_000
    assert share_of("kafka-python-send", 20_000) == LEAST_RECORDS
    assert share_of("kafka-python-send", 100) == 100


def test_a_client_that_fails_says_why():
    with pytest.raises(PeerError, match="no-such-client ended with 1"):
        run_client("no-such-client", HereAsPeer(), "topic", 1)


@pytest.mark.parametrize("make", [json_format, avro_format])
def test_formats_of_the_poll_cases_give_their_orders(make):
    form = make()
    decode = form.object_decoder()
    for number in (0, 1, 12_345_678):
        found = decode(form.encode_value(order(number)))
        assert found == order(number)
        assert list(found) == [field["name"] for field in AVRO["fields"]]
