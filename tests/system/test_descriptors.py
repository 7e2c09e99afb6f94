"""Processes that run out of file descriptors, or of memory, under load: partitions return to service by themselves, and
nothing that was acknowledged is lost.
"""

import os
import resource
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import bowstring
from tests.support.acked_load import AckedLoad, read_all
from tests.support.cluster_processes import Cluster
from tests.support.serving import Process, hear_hangups
from tests.support.waiting import HANG_S, pause, wait_until

CONNECTIONS = 150
TIMEOUT_MS = int(HANG_S * 1000)


def used_descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def limit_descriptors(pid: int, limit: int) -> None:
    hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)[1]
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, hard))


@contextmanager
def crowd(port: int) -> Iterator[None]:
    """Clients that connect and say nothing; the broker may close their connections at once."""
    held = []
    try:
        for _ in range(CONNECTIONS):
            held.append(socket.create_connection(("127.0.0.1", port), timeout=HANG_S))
        yield
    finally:
        for each in held:
            each.close()


def create(bootstrap: str, name: str, partitions: int, **options) -> None:
    """The answer may be an error: the topic exists, and its partitions come later."""
    with bowstring.Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
        try:
            admin.create_topic(name, partitions=partitions, **options)
        except bowstring.ClientError:
            wait_until(lambda: name in admin.list_topics())


def check_partitions(bootstrap: str, topic: str, partitions: int) -> None:
    """Every partition takes a record, and gives it back."""
    with bowstring.Producer(bootstrap) as producer:
        futures = [producer.send(topic, b"%d" % index, partition=index) for index in range(partitions)]
        for future in futures:
            future.result(HANG_S)
    found = read_all(bootstrap, topic, partitions)
    assert [[value for _, value in each] for each in found] == [
        [b"%d" % index] for index in range(partitions)
    ]


def errors_of(process: Process) -> list[str]:
    return [line["message"] for line in process.lines if line["level"] == "error"]


def few_descriptors() -> None:
    hear_hangups()
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))


def test_a_broker_alone_keeps_its_partitions_through_a_crowd(tmp_path: Path) -> None:
    process = Process("--data", str(tmp_path), "--port", "0", preexec_fn=few_descriptors)
    try:
        bootstrap = f"127.0.0.1:{process.port}"
        create(bootstrap, "t", 10)
        with AckedLoad(bootstrap, "t", 10) as load:
            load.wait_for_more(count=5)
            limit_descriptors(process.process.pid, used_descriptors(process.process.pid) + 60)
            with bowstring.Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
                admin.list_topics()  # it has its connection before the crowd comes
                for round_ in range(3):
                    with crowd(process.port):
                        admin.create_topic(f"n{round_}", partitions=15)
            for round_ in range(3):
                check_partitions(bootstrap, f"n{round_}", 15)
            load.wait_for_more(count=5)
        load.check()
        process.wait_for("file descriptors are available again")
        assert set(errors_of(process)) == {
            "no file descriptor is left; connections are refused until there are enough for files again"
        }
    finally:
        process.stop()


def test_partitions_come_when_the_limit_is_raised(tmp_path: Path) -> None:
    """There are more partitions than the reserve has descriptors: only the operator can help, without a restart."""
    process = Process("--data", str(tmp_path), "--port", "0", preexec_fn=few_descriptors)
    try:
        bootstrap = f"127.0.0.1:{process.port}"
        create(bootstrap, "t", 4)
        create(bootstrap, "n", 150)  # each takes a descriptor when it gets its first record
        with AckedLoad(bootstrap, "t", 4) as load, bowstring.Producer(bootstrap) as producer:
            load.wait_for_more(count=5)
            producer.partitions_for("n")
            limit_descriptors(process.process.pid, used_descriptors(process.process.pid) + 8)
            futures = [producer.send("n", b"%d" % index, partition=index) for index in range(150)]
            process.wait_for(
                "no file descriptor is left; connections are refused until there are enough for files again"
            )
            wait_until(lambda: sum(future.done() for future in futures) > 20)
            load.wait_for_more(count=5)
            assert not all(future.done() for future in futures)
            limit_descriptors(process.process.pid, 512)
            for future in futures:
                future.result(HANG_S)
            found = read_all(bootstrap, "n", 150)
            assert [[value for _, value in each] for each in found] == [[b"%d" % i] for i in range(150)]
            load.wait_for_more(count=5)
        load.check()
    finally:
        process.stop()


def test_a_cluster_keeps_its_partitions_through_a_crowd(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        cluster.start()
        bootstrap = cluster.bootstrap_of(1, 2, 3)
        with bowstring.Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin:
            admin.create_topic("t", partitions=12, replication_factor=3, configs={"min.insync.replicas": "2"})
            with AckedLoad(bootstrap, "t", 12) as load:
                load.wait_for_more(count=5)
                for id in cluster.ports:
                    pid = cluster.processes[id].process.pid
                    limit_descriptors(pid, used_descriptors(pid) + 60)
                for round_, id in enumerate(cluster.ports):
                    with crowd(cluster.broker_ports[id]):
                        create(bootstrap, f"n{round_}", 20, replication_factor=3)
                for round_ in range(3):
                    check_partitions(bootstrap, f"n{round_}", 20)
                load.wait_for_more(count=5)

                def in_sync() -> bool:
                    return all(
                        set(each.isr) == {1, 2, 3}
                        for topic in ("t", "n0", "n1", "n2")
                        for each in admin.describe_topic(topic).partitions.values()
                    )

                wait_until(in_sync)
            load.check()
    finally:
        cluster.stop()


def test_a_broker_gives_up_leaderships_that_it_cannot_serve(tmp_path: Path) -> None:
    """Another replica leads what a lack of descriptors keeps from service, until the limit is raised."""
    cluster, count = Cluster(tmp_path), 150
    try:
        cluster.start(2, 3)
        cluster.processes[1] = Process("--config", str(cluster.files[1]), preexec_fn=few_descriptors)
        bootstrap, pid = cluster.bootstrap_of(1, 2, 3), cluster.processes[1].process.pid
        with (
            bowstring.Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin,
            bowstring.Producer(bootstrap, delivery_timeout_ms=TIMEOUT_MS) as producer,
        ):
            admin.create_topics(
                [bowstring.NewTopic("n", assignments={index: [1, 2, 3] for index in range(count)})]
            )
            wait_until(lambda: len(admin.describe_topic("n").partitions) == count)

            def partitions():
                return admin.describe_topic("n").partitions.values()

            wait_until(lambda: all(set(each.isr) == {1, 2, 3} for each in partitions()))
            producer.send("n", b"0", partition=0).result(HANG_S)  # the followers' connections are there
            limit_descriptors(pid, used_descriptors(pid) + 8)
            for index in range(1, count):
                producer.send("n", b"%d" % index, partition=index)
            producer.flush()
            assert any(each.leader != 1 for each in partitions())
            limit_descriptors(pid, 512)
            wait_until(lambda: all(set(each.isr) == {1, 2, 3} for each in partitions()), partitions)
        found = read_all(bootstrap, "n", count)
        assert [[value for _, value in each] for each in found] == [[b"%d" % i] for i in range(count)]
    finally:
        cluster.stop()


def test_a_broker_gives_up_leaderships_when_its_write_ahead_log_has_no_room(tmp_path: Path) -> None:
    """As on a full disk: no segment can be made. Another replica leads until one can."""
    cluster = Cluster(tmp_path)
    sizes = {"bowstring.wal.segment.bytes": "262144", "bowstring.wal.max.bytes": "8388608"}
    try:
        for id in (1, 2, 3):
            cluster.write_config(id, **sizes)
        cluster.start()
        process, bootstrap = cluster.processes[1], cluster.bootstrap_of(1, 2, 3)
        with (
            bowstring.Admin(bootstrap, timeout_ms=TIMEOUT_MS) as admin,
            bowstring.Producer(bootstrap, delivery_timeout_ms=TIMEOUT_MS) as producer,
        ):
            admin.create_topics([bowstring.NewTopic("n", assignments={0: [1, 2, 3], 1: [2, 3, 1]})])
            admin.create_topics([bowstring.NewTopic("alone", assignments={0: [1]})])
            wait_until(lambda: [sorted(each.isr) for each in states(admin, "n")] == [[1, 2, 3]] * 2)
            blocks = [tmp_path / "1" / f"bowstring.wal.{number}" for number in range(64)]
            blocks = [each for each in blocks if not each.exists()]
            for each in blocks:
                each.mkdir()
            futures = [producer.send("n", b"x" * 100_000, partition=0) for _ in range(40)]
            for future in futures:
                future.result(HANG_S)
            wait_until(lambda: [each.leader for each in states(admin, "n")] == [2, 2])
            assert [each.leader for each in states(admin, "alone")] == [1]
            for each in blocks:
                each.rmdir()
            wait_until(lambda: [sorted(each.isr) for each in states(admin, "n")] == [[1, 2, 3]] * 2)
        process.wait_for("the write-ahead log has free segments again")
        assert errors_of(process) == [
            "the write-ahead log has no free segment; producers wait until there is one again"
        ]
    finally:
        cluster.stop()


def states(admin: bowstring.Admin, topic: str) -> list:
    return [state for _, state in sorted(admin.describe_topic(topic).partitions.items())]


def virtual_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    return 1024 * int(text.partition("VmSize:")[2].split()[0])


def test_a_broker_without_memory_loses_nothing(tmp_path: Path) -> None:
    """Requests fail with errors that clients repeat, or the process ends."""
    arguments = ("--data", str(tmp_path), "--port")
    process = Process(*arguments, "0")
    port = process.port
    try:
        bootstrap = f"127.0.0.1:{port}"
        create(bootstrap, "t", 8)
        with AckedLoad(bootstrap, "t", 8) as load:
            load.wait_for_more(count=5)
            pid = process.process.pid
            hard = resource.prlimit(pid, resource.RLIMIT_AS)[1]
            resource.prlimit(pid, resource.RLIMIT_AS, (virtual_bytes(pid), hard))
            crowd_until = time.monotonic() + 8
            while time.monotonic() < crowd_until and process.process.poll() is None:
                with crowd(port):
                    pause(0.2, "connections are open for a moment")
            if process.process.poll() is None:
                resource.prlimit(pid, resource.RLIMIT_AS, (hard, hard))
            else:
                process = Process(*arguments, str(port))
            load.wait_for_more(count=5)
        load.check()
    finally:
        process.stop()
