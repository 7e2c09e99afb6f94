"""The offsets of partitions as metrics, from the broker that leads them."""

import socket
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families

import bowstring
from bowstring.engine.broker import partition_metrics
from bowstring.engine.broker.request_counters import EXPORTED_BUCKETS
from tests.support.addresses import own_address


def scrape(port):
    wanted = Request(f"http://{own_address()}:{port}/metrics", headers={"Accept": OPEN_METRICS})
    with urlopen(wanted) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    return {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


def test_offsets_builds_and_buckets_are_served(monkeypatch):
    with socket.create_server((own_address(), 0)) as free:
        port = free.getsockname()[1]
    started = bowstring.Broker(host=own_address(), config={"bowstring.metrics.port": port})
    with started as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        with bowstring.Admin(broker.bootstrap_servers) as admin:
            admin.create_topic("t", partitions=2)
        producer.send("t", b"a", partition=1).result()
        found = scrape(port)
        assert found["bowstring_partition_high_watermark", "1", "t"] == 1
        assert found["bowstring_partition_log_start_offset", "1", "t"] == 0
        assert found["bowstring_partition_high_watermark", "0", "t"] == 0
        assert found[("bowstring_partition_offsets_left_out",)] == 0
        (build,) = [each for each in found if each[0] == "bowstring_build_info"]
        assert bowstring.__version__ in build
        buckets = [
            each for each in found if each[0] == "bowstring_request_seconds_bucket" and "Produce" in each
        ]
        assert len(buckets) == len(EXPORTED_BUCKETS) + 1
        monkeypatch.setattr(partition_metrics, "ROWS_MAX", 1)
        found = scrape(port)
        assert found[("bowstring_partition_offsets_left_out",)] == 1
        assert len([each for each in found if each[0] == "bowstring_partition_high_watermark"]) == 1
