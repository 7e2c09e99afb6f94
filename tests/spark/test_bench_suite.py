"""The suite that asv measures Spark's reads with, in the session of these tests and with few rows."""

from bench.suites.spark import Read, timer


def test_spark_suite_runs(spark, monkeypatch):
    monkeypatch.setattr(Read, "rows", 1000)
    reading = Read()
    reading.setup()
    try:
        before = timer()
        reading.time_sum_of_lengths()
        reading.time_all_columns()
        assert timer() > before
    finally:
        reading.teardown()
    assert type(spark).getActiveSession() is not None, "it has stopped the session of others"
