"""Brokers and controllers that reach one another over SASL_SSL, under load: nothing is lost, no client fails."""

import re
from pathlib import Path

import pytest

import bowstring
from bowstring.clients.admin.admin import Admin
from bowstring.cluster import layout
from bowstring.cluster.layout import prepare
from bowstring.engine.quorum.formatting import FormatOptions
from tests.support.acked_load import AckedLoad
from tests.support.in_sync import wait_until_in_sync
from tests.support.secured_nodes import JAAS, NODE_PASSWORD, secured
from tests.support.serving import steady_port
from tests.support.waiting import HANG_S

TIMEOUT_MS = int(HANG_S * 1000)
PARTITIONS = 3
PATIENT = {"controller.quorum.election.timeout.ms": 1000, "controller.quorum.fetch.timeout.ms": 2000}
BETWEEN_NODES = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL"
}


@pytest.fixture
def admin_of():
    opened = []

    def of(cluster):
        opened.append(Admin(cluster.bootstrap_servers, timeout_ms=TIMEOUT_MS))
        return opened[-1]

    yield of
    for each in opened:
        each.close()


def load_on(cluster, admin, topic):
    assignments = {index: [1 + (index + place) % 3 for place in range(3)] for index in range(PARTITIONS)}
    admin.create_topics(
        [bowstring.NewTopic(topic, assignments=assignments, configs={"min.insync.replicas": "2"})]
    )
    return AckedLoad(cluster.bootstrap_servers, topic, PARTITIONS)


def test_three_nodes_replicate_over_sasl_ssl(tmp_path, admin_of, monkeypatch):
    """A leader is killed, another restarted, then all; sessions end all the time. Controllers log in to one another
    by SCRAM, with credentials of their own metadata.
    """
    monkeypatch.setattr(layout, "prepare", prepared_with_user)
    config = PATIENT | BETWEEN_NODES | secured(tmp_path, "internal", "controller")
    config |= {
        "connections.max.reauth.ms": "3000",
        "listener.name.controller.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.controller.scram-sha-512.sasl.jaas.config": JAAS.replace("plain.Plain", "scram.Scram"),
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-512",
    }
    with bowstring.Cluster(3, config=config, start_timeout_s=HANG_S) as cluster:
        admin = admin_of(cluster)
        load = load_on(cluster, admin, "orders")
        with load:
            load.wait_for_more()
            cluster.kill(1)
            load.wait_for_more()
            cluster.restart(1)
            wait_until_in_sync(admin, "orders")
            cluster.restart(2)
            wait_until_in_sync(admin, "orders")
            cluster.restart()
            load.wait_for_more()
        load.check()
        logs = "".join(cluster.log_text(id) for id in cluster.node_ids)
        assert NODE_PASSWORD not in logs


def prepared_with_user(node, settings, cluster_id):
    user = f"SCRAM-SHA-512=[name=node,password={NODE_PASSWORD}]"
    options = FormatOptions(cluster_id=cluster_id, ignore_formatted=True, add_scram=[user])
    return prepare(node, settings, cluster_id, options)


def test_a_rolling_change_to_sasl_ssl_is_not_seen_by_clients(tmp_path, admin_of):
    with bowstring.Cluster(3, config=PATIENT, linked=False, start_timeout_s=HANG_S) as cluster:
        admin = admin_of(cluster)
        load = load_on(cluster, admin, "orders")
        with load:
            for change in (with_second_listener(tmp_path), with_inter_broker_listener):
                for id in cluster.broker_ids:
                    load.wait_for_more(count=10)
                    file = cluster.data_dir / f"node-{id}" / "server.properties"
                    file.write_text(change(file.read_text()))
                    cluster.restart(id)
                    wait_until_in_sync(admin, "orders")
            load.wait_for_more(count=10)
        load.check()


def with_second_listener(folder: Path):
    settings = secured(folder, "secure")

    def change(text: str) -> str:
        address = f",SECURE://127.0.0.1:{steady_port()}"
        text = re.sub(r"^((?:advertised\.)?listeners=.*)$", rf"\1{address}", text, flags=re.MULTILINE)
        text = re.sub(r"^(listener\.security\.protocol\.map=.*)$", r"\1,SECURE:SASL_SSL", text, flags=re.M)
        return text + "".join(f"{name}={value}\n" for name, value in settings.items())

    return change


def with_inter_broker_listener(text: str) -> str:
    return text + "inter.broker.listener.name=SECURE\n"
