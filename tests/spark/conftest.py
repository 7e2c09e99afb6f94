"""One JVM for the Spark tests: a session with the jar and Spark's own Kafka connector, and brokers for it.

`spark` has the columnar engine; `python_spark` is a Spark Connect session on a server without any jar, as an
organisation's shared cluster would be. Whatever a test changes in a session's settings it sets back.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import bowstring
from bench.peers import install
from bowstring.spark.sessions import session
from tests.support import peers, spark_archive
from tests.support.target import KafkaBroker
from tests.support.waiting import HANG_S

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
# Spark Connect's gRPC would else look after its threads in every child that a later test forks, and end it.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
_numbers = itertools.count(1)
JVM_OPTIONS = "-Xss4m -XX:+UseSerialGC"
SETTINGS: dict[str, Any] = {
    "spark.driver.memory": "1500m",
    "spark.driver.extraJavaOptions": JVM_OPTIONS,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}


def end_jvm() -> None:
    """Ends the JVM that PySpark keeps until its process ends: idle, it would take time from all other tests."""
    from pyspark import SparkContext

    gateway, SparkContext._gateway, SparkContext._jvm = SparkContext._gateway, None, None
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(HANG_S)


@pytest.fixture(scope="session", autouse=True)
def class_archive() -> None:
    """Every JVM of Spark here starts from an archive of the classes that it loads."""
    spark_archive.use_archive()


@pytest.fixture(scope="session")
def kafka_source_jars() -> list[str]:
    """Spark's own Kafka connector and what it needs, from Maven Central."""
    peers.tool("mvn", "Maven (Debian: maven)")
    return install.spark_kafka_jars()


@pytest.fixture(scope="package")
def spark(kafka_source_jars: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the columnar engine (`format("bowstring")`) and Spark's Kafka source (`format("kafka")`)."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        **SETTINGS,
        "spark.jars": ",".join(kafka_source_jars),
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.local.dir": str(tmp_path_factory.mktemp("spark-local")),
    }
    started = session("tests", master="local[2]", **settings)
    started.sparkContext.setLogLevel("ERROR")
    yield started
    started.stop()
    end_jvm()


@pytest.fixture(scope="package")
def python_spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark Connect session (`pyspark.sql.connect`) on a server whose JVM has no jar of ours."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    folder = tmp_path_factory.mktemp("connect")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    server = subprocess.Popen(
        [sys.executable, str(HERE / "connect_server.py"), str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        port = int(server.stdout.readline())
        connected = ConnectSession.builder.remote(f"sc://127.0.0.1:{port}").create()
        yield connected
        connected.stop()
    finally:
        server.stdin.close()
        server.wait(HANG_S)


@pytest.fixture(scope="package")
def broker() -> Iterator[bowstring.Broker]:
    """An embedded Bowstring broker; no test stops it."""
    with bowstring.Broker(config={"log.retention.ms": -1}) as running:
        yield running


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    """Apache Kafka; no test stops it. `kafka.bootstrap` is its address."""
    running = KafkaBroker(tmp_path_factory.mktemp("kafka"), {"log.retention.ms": "-1"})
    running.start()
    yield running
    running.stop()


@pytest.fixture(params=["bowstring", "kafka"])
def servers(request: pytest.FixtureRequest) -> str:
    """Bootstrap servers of Bowstring and of Apache Kafka in turn."""
    if request.param == "bowstring":
        return str(request.getfixturevalue("broker").bootstrap_servers)
    return str(request.getfixturevalue("kafka").bootstrap)


@pytest.fixture
def make_topic() -> Iterator[Callable[..., str]]:
    """make_topic(servers, partitions=1, **configs) makes a topic no other test has; dots in names as underscores."""

    def make(servers: str, partitions: int = 1, **configs: str) -> str:
        name = f"spark-{os.getpid()}-{next(_numbers)}"
        dotted = {key.replace("_", "."): value for key, value in configs.items()}
        with bowstring.Admin(servers) as admin:
            admin.create_topics([bowstring.NewTopic(name, partitions, configs=dotted)])
        return name

    yield make
