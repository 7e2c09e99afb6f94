"""Brokers and controllers that log in at one another with GSSAPI, at a real KDC."""

import pytest

import bowstring
from bowstring import Admin, Consumer, Producer
from tests.support.debian_packages import NoPackagesError
from tests.support.in_sync import wait_until_in_sync
from tests.support.kerberos_realm import REALM, realm
from tests.support.waiting import HANG_S

PRINCIPAL = "kafka/127.0.0.1"


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    try:
        with realm(tmp_path_factory.mktemp("realm"), PRINCIPAL, "alice") as found:
            yield found
    except NoPackagesError as error:
        pytest.skip(str(error))


def test_nodes_log_in_at_one_another(kdc):
    """A node is restarted; the sessions end all the time; a client comes in with Kerberos, too."""
    listeners = ("plaintext", "internal", "controller")
    config = {
        "listener.security.protocol.map": ",".join(f"{each.upper()}:SASL_PLAINTEXT" for each in listeners),
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "connections.max.reauth.ms": "3000",
        **{
            f"listener.name.{each}.gssapi.sasl.jaas.config": kdc.jaas(f"{PRINCIPAL}@{REALM}")
            for each in listeners
        },
    }
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": kdc.keytab("alice"),
    }
    with bowstring.Cluster(2, config=config, start_timeout_s=HANG_S) as cluster:
        where = cluster.bootstrap_servers
        with Admin(where, security=client) as admin, Producer(where, security=client, acks="all") as producer:
            admin.create_topics([bowstring.NewTopic("orders", 1, 2, configs={"min.insync.replicas": "2"})])
            producer.send("orders", b"first").result()
            cluster.restart(2)
            wait_until_in_sync(admin, "orders")
            producer.send("orders", b"second").result()
            with Consumer(where, security=client, auto_offset_reset="earliest") as consumer:
                consumer.assign([("orders", 0)])
                found = []
                while len(found) < 2:
                    found += [record.value for record in consumer.poll(timeout=HANG_S)]
            assert found == [b"first", b"second"]
