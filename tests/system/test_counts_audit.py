"""Three tiers with mirrors between them: records that are dropped are named, and none missing is exactly 100 %."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest

import bowstring
from bowstring.audit.count_table import CountTable
from bowstring.audit.counts_reader import CountsReader, now_ms
from bowstring.audit.service import AuditService
from bowstring.clients.errors import ClientError, UnknownTopicError
from tests.support.waiting import HANG_S

MINUTE = 60_000
RECORDS = 600


@pytest.fixture(scope="module")
def brokers():
    with bowstring.Broker() as first, bowstring.Broker() as second, bowstring.Broker() as third:
        yield [each.bootstrap_servers for each in (first, second, third)]


def audit(tier, brokers, **settings):
    return bowstring.Audit(tier, window_ms=MINUTE, counts_bootstrap_servers=brokers[0], **settings)


def hour_ago():
    return (now_ms() - 60 * MINUTE) // MINUTE * MINUTE


def mirror(topic, records, source, target, tiers, brokers, drop=lambda record: False):
    """Copies a topic by our clients, as a mirror does."""
    consumer = bowstring.Consumer(
        source, group_id="mirror", auto_offset_reset="earliest", audit=audit(tiers[0], brokers)
    )
    with consumer, bowstring.Producer(target, audit=audit(tiers[1], brokers)) as producer:
        consumer.subscribe([topic])
        found = 0
        while found < records:
            for record in consumer.poll(HANG_S):
                found += 1
                if not drop(record):
                    producer.send(topic, record.value, key=record.key, timestamp=record.timestamp)


def rows_of(topic, brokers, **settings):
    table = CountTable(**settings)
    with CountsReader(brokers[:1], "audit-counts", table) as reader:
        reader.read_all()
        return [row for row in table.rows(now_ms(), grace_ms=0) if row.topic == topic]


def send_hour(topic, brokers, tier="app"):
    """Records over three windows; returns the start of the first."""
    start = hour_ago()
    with bowstring.Producer(brokers[0], audit=audit(tier, brokers)) as producer:
        for number in range(RECORDS):
            producer.send(topic, b"%d" % number, timestamp=start + number * 3 * MINUTE // RECORDS)
    return start


def test_none_missing_is_exactly_everything_in_three_tiers(brokers):
    send_hour("whole", brokers)
    mirror("whole", RECORDS, brokers[0], brokers[1], ("app", "dc"), brokers)
    mirror("whole", RECORDS, brokers[1], brokers[2], ("dc", "lake"), brokers)
    rows = rows_of("whole", brokers)
    assert {str(row.stage) for row in rows} == {"app", "app/mirror", "dc", "dc/mirror", "lake"}
    assert {(row.records, row.share, row.state) for row in rows} == {(RECORDS // 3, 1.0, "complete")}


def test_dropped_records_are_named_with_topic_and_window(brokers):
    start = send_hour("holes", brokers)
    mirror("holes", RECORDS, brokers[0], brokers[1], ("app", "dc"), brokers)
    middle = range(RECORDS // 3, RECORDS // 3 + 5)
    mirror(
        "holes",
        RECORDS,
        brokers[1],
        brokers[2],
        ("dc", "lake"),
        brokers,
        lambda each: int(each.value) in middle,
    )
    incomplete = [row for row in rows_of("holes", brokers) if row.state == "incomplete"]
    assert [(row.start_ms, str(row.stage), row.missing) for row in incomplete] == [
        (start + MINUTE, "lake", 5)
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "bowstring", "audit", "status", "-b", brokers[0], "--json", "holes"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    assert ran.returncode == 1
    assert "5 records are missing, in 1 windows of 1 topics" in ran.stderr
    missing = [row for row in json.loads(ran.stdout) if row["state"] == "incomplete"]
    assert [(row["topic"], row["start_ms"], row["tier"]) for row in missing] == [
        ("holes", start + MINUTE, "lake")
    ]


def test_records_that_are_read_again_are_a_surplus(brokers):
    send_hour("again", brokers)
    for _ in range(2):
        with bowstring.Consumer(
            brokers[0], client_id="reader", auto_offset_reset="earliest", audit=audit("app", brokers)
        ) as consumer:
            consumer.assign([("again", 0)])
            left = RECORDS
            while left:
                left -= consumer.poll_arrow(HANG_S, columns=["value"], max_records=left).num_rows
    read = [row for row in rows_of("again", brokers) if row.stage.role == "consumer"]
    assert {(row.share, row.surplus, row.state) for row in read} == {(2.0, RECORDS // 3, "surplus")}


def test_every_way_of_reading_counts_the_same(brokers):
    send_hour("ways", brokers)
    ways = {
        "poll": lambda consumer: len(consumer.poll(HANG_S)),
        "batches": lambda consumer: sum(each.record_count for each in consumer.poll_batches(HANG_S)),
        "arrow": lambda consumer: consumer.poll_arrow(HANG_S, timestamp_unit="us").num_rows,
        "views": lambda consumer: (
            consumer.poll_arrow(HANG_S, columns=["offset"], layout="binary_view").num_rows
        ),
        "one": lambda consumer: int(next(iter(consumer)) is not None),
    }
    for name, read in ways.items():
        with bowstring.Consumer(
            brokers[0], client_id=name, auto_offset_reset="earliest", audit=audit("app", brokers)
        ) as consumer:
            consumer.assign([("ways", 0)])
            found = 0
            while found < RECORDS:
                found += read(consumer)
    rows = rows_of("ways", brokers)
    assert {row.stage.reader for row in rows} == {"", *ways}
    assert {row.share for row in rows} == {1.0}


def test_every_way_of_sending_counts_the_same(brokers):
    pa = pytest.importorskip("pyarrow")
    start = hour_ago()
    times = [start + number * 3 * MINUTE // RECORDS for number in range(RECORDS)]
    times[1], times[-1] = times[-1], times[1]  # out of order, across windows
    values = [b"%d" % number for number in range(RECORDS)]
    table = pa.table({"value": values, "timestamp": pa.array(times, pa.timestamp("ms", "UTC"))})

    def one_by_one(producer, topic):
        for value, time in zip(values, times, strict=True):
            producer.send(topic, value, timestamp=time)

    ways = {
        "send": one_by_one,
        "columns": lambda producer, topic: producer.send_columns(topic, 0, values, timestamps=times),
        "arrow": lambda producer, topic: producer.send_arrow(topic, table),
    }
    for name, send in ways.items():
        for compression in ("none", "zstd"):
            topic = f"sent-{name}-{compression}"
            with bowstring.Producer(
                brokers[0], compression=compression, batch_size=4096, audit=audit("app", brokers)
            ) as producer:
                send(producer, topic)
            assert [row.records for row in rows_of(topic, brokers)] == [RECORDS // 3] * 3, topic


def test_records_of_an_aborted_transaction_are_not_counted(brokers):
    start = hour_ago()
    with bowstring.Producer(brokers[0], transactional_id="counted", audit=audit("app", brokers)) as producer:
        for number in range(4):
            producer.begin_transaction()
            for _ in range(10):
                producer.send("transactions", b"x", timestamp=start)
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    assert [row.records for row in rows_of("transactions", brokers)] == [20]


def test_records_that_are_refused_are_not_counted(brokers):
    start = hour_ago()
    with bowstring.Admin(brokers[0]) as admin:
        admin.create_topics([bowstring.NewTopic("small", 1, configs={"max.message.bytes": "1000"})])
    with bowstring.Producer(brokers[0], audit=audit("app", brokers)) as producer:
        producer.send("small", b"x", timestamp=start).result(HANG_S)
        with pytest.raises(ClientError):
            producer.send("small", b"x" * 5000, timestamp=start).result(HANG_S)
    assert [row.records for row in rows_of("small", brokers)] == [1]


KILLED = """
import bowstring, signal, sys
audit = bowstring.Audit("app", window_ms=60000, report_interval_ms=int(sys.argv[3]))
producer = bowstring.Producer(sys.argv[1], audit=audit)
for _ in range(100):
    producer.send("killed-" + sys.argv[3], b"x", timestamp=int(sys.argv[2]))
producer.flush()
if len(sys.argv) > 4:
    with bowstring.Consumer(sys.argv[1], auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for("audit-counts"))
        while not any(b"killed-" in record.key for record in consumer.poll(1)):
            pass
print("sent", flush=True)
signal.pause()
"""


def killed(brokers, interval_ms, *more):
    arguments = [sys.executable, "-c", KILLED, brokers[0], str(hour_ago()), str(interval_ms), *more]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "sent\n"
        finally:
            os.kill(process.pid, signal.SIGKILL)
    return rows_of(f"killed-{interval_ms}", brokers)


def test_what_was_reported_before_a_kill_counts(brokers):
    assert [row.records for row in killed(brokers, 100, "await")] == [100]


def test_a_kill_loses_the_counts_since_the_last_report(brokers):
    assert killed(brokers, 3_600_000) == []


def test_a_process_that_ends_without_close_reports_its_counts(brokers):
    program = KILLED.replace("signal.pause()", "")
    start = hour_ago()
    arguments = [sys.executable, "-c", program, brokers[0], str(start), "3600001"]
    subprocess.run(arguments, check=True, timeout=HANG_S, stdout=subprocess.DEVNULL)
    assert [row.records for row in rows_of("killed-3600001", brokers)] == [100]


def test_metrics_and_warnings_of_the_service(brokers):
    start = send_hour("watched", brokers)
    mirror(
        "watched", RECORDS, brokers[0], brokers[1], ("app", "dc"), brokers, lambda each: int(each.value) < 30
    )
    reported = []
    with CountsReader(brokers[:1], "audit-counts", CountTable()) as reader:
        service = AuditService(reader, 0, ("127.0.0.1", 0), reported.append)
        url = f"http://127.0.0.1:{service.port}/metrics"
        try:
            before = urllib.request.urlopen(url, timeout=HANG_S).read().decode()
            assert "bowstring_audit_caught_up 0.0" in before
            assert 'topic="watched"' not in before
            while "bowstring_audit_caught_up 1.0" not in (
                text := urllib.request.urlopen(url).read().decode()
            ):
                service.step(0.1)
            service.look(now_ms())
        finally:
            service.close()
    assert 'bowstring_audit_arrived_ratio{first="app",stage="dc",topic="watched"} 0.95' in text
    assert 'bowstring_audit_missing_records{first="app",stage="dc",topic="watched"} 30.0' in text
    assert 'bowstring_audit_incomplete_windows{first="app",stage="app/mirror",topic="watched"} 0.0' in text
    assert [(row.start_ms, row.missing) for row in reported if row.topic == "watched"] == [(start, 30)]


def test_a_cluster_without_counts_is_an_error_that_says_what_to_do(brokers):
    with pytest.raises(UnknownTopicError, match="no client has reported counts there"):
        CountsReader(brokers[2:], "other-counts", CountTable(), timeout_s=1)
