"""The perf tools' lines are those of Kafka's tools, so that scripts parse both."""

import re

from tests.support.waiting import FOR_EVER_MS

# org.apache.kafka.tools.ProducerPerformance 4.3, closing line and progress line.
TOTAL = re.compile(
    r"(\d+)( steady state)? records sent, (\d+\.\d{6}) records/sec \((\d+\.\d\d) MB/sec\), (\d+\.\d\d) ms avg latency, "
    r"(\d+\.\d\d) ms max latency, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th, (\d+) ms 99\.9th\.$"
)
WINDOW = re.compile(
    r"\d+ records sent, \d+\.\d records/sec \(\d+\.\d\d MB/sec\), \d+\.\d ms avg latency, \d+\.\d ms max latency\.$"
)
HEADER = (
    "start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, "
    "rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec"
)


def test_produce_then_consume(cli, topic):
    cli("topics", "create", topic, "-p", 2)
    lines = cli("perf", "produce", "--topic", topic, "--num-records", 30_000, "--record-size", 100,
                "--warmup-records", 1000, "--command-property", "linger.ms=1").lines  # fmt: skip
    assert lines[0].startswith("Warmup first 1000 records.")
    total, steady = TOTAL.match(lines[-2]), TOTAL.match(lines[-1])
    assert total and total[1] == "30000" and not total[2]
    assert steady and steady[1] == "29000" and steady[2]
    found = cli("perf", "consume", "--topic", topic, "--num-records", 30_000, "--timeout", FOR_EVER_MS).lines
    assert found[0] == HEADER
    fields = found[1].split(", ")
    assert len(fields) == len(HEADER.split(", ")) and fields[4] == "30000"
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}$", fields[0])
    assert abs(float(fields[2]) - 30_000 * 100 / 2**20) < 0.001


def test_throughput_and_progress(cli, topic):
    cli("topics", "create", topic)
    lines = cli("perf", "produce", "--topic", topic, "--num-records", 2000, "--record-size", 10,
                "--throughput", 2000, "--reporting-interval", 300).lines  # fmt: skip
    assert WINDOW.match(lines[0])
    assert 0 < float(TOTAL.match(lines[-1])[3]) < 2300


def test_payloads(cli, topic, tmp_path):
    cli("topics", "create", topic)
    file = tmp_path / "payloads"
    file.write_text("one|two")
    done = cli("perf", "produce", "--topic", topic, "--num-records", 50, "--payload-file", file,
               "--payload-delimiter", "|")  # fmt: skip
    assert "Number of records read: 2" in done.out
    assert set(cli("consume", topic).lines) == {"one", "two"}
    cli("perf", "produce", "--topic", topic, "--num-records", 5, "--payload-monotonic")
    assert cli("consume", topic, "--from", 50).lines == ["0", "1", "2", "3", "4"]
    assert cli("perf", "produce", "--topic", topic, "--num-records", 5).code == 2
    assert cli("perf", "produce", "--topic", topic, "--num-records", 5, "--record-size", 1,
               "--command-property", "nonsense=1").code == 2  # fmt: skip


def test_a_properties_file_as_java_reads_it(cli, topic, tmp_path):
    cli("topics", "create", topic)
    file = tmp_path / "client.properties"
    file.write_text("# ours\nclient.id : perf\nlinger.ms\\\n  = 3\nbatch.size 1000\n")
    given = ("perf", "produce", "--topic", topic, "--num-records", 5, "--record-size", 1, "--command-config")
    assert cli(*given, file).code == 0
    file.write_text("lingr.ms : 3\n")
    assert cli(*given, file).code == 2
    file.write_bytes(b"\xff")
    unreadable = cli(*given, file)
    assert unreadable.code != 0 and "cannot read" in unreadable.err


def test_consume_gives_up(cli, topic):
    cli("topics", "create", topic)
    done = cli("perf", "consume", "--topic", topic, "--num-records", 5, "--timeout", 300, "--hide-header")
    assert done.lines[0].startswith("WARNING: Exiting before consuming the expected number of records")


def test_latency(cli, topic):
    lines = cli("perf", "latency", "--topic", topic, "--num-records", 30).lines
    assert lines[0] == (
        f'Topic "{topic}" does not exist. Will create topic with 1 partition(s) and replication factor = 1'
    )
    assert re.match(r"0\t\d+\.\d+$", lines[1])
    assert re.match(r"Avg latency: \d+\.\d{4} ms$", lines[2])
    assert re.match(r"Percentiles: 50th = \d+, 99th = \d+, 99\.9th = \d+$", lines[3])
    assert cli("perf", "latency", "--topic", topic, "--num-records", 3, "--json").json["records"] == 3
    assert cli("perf", "latency", "--topic", topic, "--num-records", 3, "--producer-acks", 0).code == 2
