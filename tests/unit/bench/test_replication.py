"""The replication bench in its smallest size."""

from bench.replication import measure


def test_three_brokers_replicate(tmp_path):
    found = measure(20_000, partitions=2, directory=str(tmp_path))
    assert found["records_per_s"] > 0 and found["fetches"] > 0
    assert found["follower_cpu_s_per_gb"] > 0
