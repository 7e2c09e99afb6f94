"""The columnar engine reads and writes over GSSAPI, with a keytab and with a ticket cache, at a real KDC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

import bowstring
from tests.support.debian_packages import NoPackagesError
from tests.support.kerberos_realm import MODULE, REALM, Realm, realm
from tests.support.serving import steady_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PRINCIPAL = "kafka/127.0.0.1"


@pytest.fixture(scope="module")
def kdc(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    jvm = spark._jvm
    assert jvm is not None
    try:
        with realm(tmp_path_factory.mktemp("realm"), PRINCIPAL, "nokafka/127.0.0.1", "alice") as found:
            jvm.java.lang.System.setProperty("java.security.krb5.conf", str(found.folder / "krb5.conf"))
            yield found
            jvm.java.lang.System.clearProperty("java.security.krb5.conf")
    except NoPackagesError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def bootstrap(kdc: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = steady_port()
    settings = {
        "listeners": f"K://127.0.0.1:{port},INNER://127.0.0.1:0",
        "listener.security.protocol.map": "K:SASL_PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.k.gssapi.sasl.jaas.config": kdc.jaas(f"{PRINCIPAL}@{REALM}"),
    }
    with bowstring.Broker(data_dir=tmp_path_factory.mktemp("data"), config=settings):
        yield f"127.0.0.1:{port}"


def options(bootstrap: str, **more: str) -> dict[str, str]:
    security = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"}
    security |= {name.replace("_", "."): text for name, text in more.items()}
    return {f"kafka.{name}": text for name, text in security.items()} | {
        "kafka.bootstrap.servers": bootstrap,
        "topic": "secured",
    }


def test_writes_with_a_keytab_and_reads_with_tickets(spark: SparkSession, kdc: Realm, bootstrap: str) -> None:
    keytab = options(
        bootstrap, sasl_kerberos_keytab=kdc.keytab("alice"), sasl_kerberos_principal=f"alice@{REALM}"
    )
    spark.sql("SELECT 'one' AS value").write.format("bowstring").options(**keytab).save()
    line = f'{MODULE} required useTicketCache=true ticketCache="{kdc.tickets("alice", "spark")}";'
    tickets = options(bootstrap, sasl_jaas_config=line) | {"subscribe": "secured"}
    rows = spark.read.format("bowstring").options(**tickets).load().select("value").collect()
    assert [bytes(row.value) for row in rows] == [b"one"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl_kerberos_service_name": "nokafka"}, "invalid credentials with SASL mechanism GSSAPI"),
        ({"sasl_kerberos_service_name": "nowhere"}, "Kerberos: .*Check the keytab or the ticket cache"),
        ({"sasl_kerberos_principal": f"mallory@{REALM}"}, "Kerberos: "),
        ({"sasl_jaas_config": f"{MODULE} required useKeyTab=true;"}, "must be specified together"),
    ],
)
def test_says_what_is_wrong(
    spark: SparkSession, kdc: Realm, bootstrap: str, settings: dict[str, str], words: str
) -> None:
    keytab = {"sasl_kerberos_keytab": kdc.keytab("alice"), "sasl_kerberos_principal": f"alice@{REALM}"}
    if "sasl_jaas_config" in settings:
        keytab = {}
    read = spark.read.format("bowstring").options(**options(bootstrap, **(keytab | settings)))
    with pytest.raises(Exception, match=words):
        read.option("subscribe", "secured").load().collect()
