"""The columnar engine over SASL_SSL with SCRAM-SHA-512, at a broker with an authorizer: reads, writes, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import bowstring
from tests.support.secured_nodes import key_files
from tests.support.serving import steady_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PASSWORD = "of-alice-77"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("secured")
    port, inner = steady_port(), steady_port()
    settings = key_files(folder) | {
        "listeners": f"S://127.0.0.1:{port},INNER://127.0.0.1:{inner}",
        "listener.security.protocol.map": "S:SASL_SSL,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with bowstring.Broker(data_dir=folder / "data", config=settings):
        with bowstring.Admin(f"127.0.0.1:{inner}") as admin:
            admin.create_topic("mine")
            admin.create_topic("other")
            admin.alter_user_scram_credentials(
                [
                    bowstring.UserScramCredentialUpsertion(
                        "alice", bowstring.ScramCredentialInfo("SCRAM-SHA-512", 4096), PASSWORD
                    )
                ]
            )
            admin.create_acls(
                [
                    bowstring.AclBinding("topic", "mine", "literal", "User:alice", "*", each, "allow")
                    for each in ("read", "write")
                ]
            )
        yield {
            "kafka.bootstrap.servers": f"localhost:{port}",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            "kafka.sasl.username": "alice",
            "kafka.sasl.password": PASSWORD,
            "kafka.ssl.ca.location": str(folder / "trust.pem"),
        }


def read(spark: SparkSession, options: dict[str, str], topic: str) -> list[bytes]:
    rows = spark.read.format("bowstring").options(**options).option("subscribe", topic).load()
    return [bytes(row.value) for row in rows.select("value").collect()]


def test_reads_and_writes(spark: SparkSession, secured: dict[str, str]) -> None:
    frame = spark.sql("SELECT 'one' AS value")
    frame.write.format("bowstring").options(**secured, topic="mine").save()
    assert read(spark, secured, "mine") == [b"one"]


def test_a_wrong_password_is_named(spark: SparkSession, secured: dict[str, str]) -> None:
    with pytest.raises(Exception, match=r"(?i)invalid credentials") as caught:
        read(spark, secured | {"kafka.sasl.password": "wrong-4711"}, "mine")
    assert "wrong-4711" not in str(caught.value)


@pytest.mark.parametrize("writes", [False, True])
def test_a_missing_rule_is_named(spark: SparkSession, secured: dict[str, str], writes: bool) -> None:
    with pytest.raises(Exception, match=r"(?i)AUTHORIZATION_FAILED|not authorized|does not exist"):
        if writes:
            frame = spark.sql("SELECT 'one' AS value")
            frame.write.format("bowstring").options(**secured, topic="other").save()
        else:
            read(spark, secured, "other")
