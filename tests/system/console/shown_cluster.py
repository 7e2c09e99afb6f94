"""A broker with something for every page of the console: records, groups of all types, users, rules, quotas."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from bowstring import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    Admin,
    Consumer,
    Producer,
    ResourcePatternType,
    ScramCredentialInfo,
    ScramMechanism,
    ShareConsumer,
    TopicPartition,
    UserScramCredentialUpsertion,
)
from tests.support.access import STANDARD
from tests.support.serving import Process, steady_port
from tests.support.waiting import wait_until

HOSTILE = "hostile"
MARK = "window.__hostile = (window.__hostile || 0) + 1"
"""What every hostile text would run; a page has no such property afterwards."""
HOSTILE_VALUES = (
    f"<script>{MARK}</script>".encode(),
    f'<img src="x" onerror="{MARK}">'.encode(),
    f'"><svg onload="{MARK}"></svg>'.encode(),
    f"</script></style></pre></td><script>{MARK}</script>".encode(),
    f"{{{{ {MARK} }}}}{{% raw %}}${{{MARK}}}".encode(),
    f'<a href="javascript:{MARK}" autofocus onfocus="{MARK}">here</a>'.encode(),
    json.dumps({f"<img src=x onerror='{MARK}'>": [f"<script>{MARK}</script>"]}).encode(),
    b"\x1b[2J\x1b]0;owned\x07\x1b[31mred\x00\x08\x7f\xc2\x9b31m",
    b"\xff\xfe\x00\xc3\x28\xed\xa0\x80",
    "\u202egnp.exe \u200b\ufeff\u2028\u2029".encode(),
    b"<b>" * 3_500_000,
)
HOSTILE_NAME = f"<img src=x onerror='{MARK}'>"
"""Of a group, a user, a client id, a transactional id."""
USER, PASSWORD = "alice", "not shown"
"""Who may describe and read the topic orders only."""
ORDERS = 200
AUDITED, ARRIVED = 20, 18
"""Records of a topic that two tiers counted an hour ago; the second one misses some."""


class ShownCluster:
    """The running broker.

    Attributes:
        port: Of its listener in the clear, whose clients may do everything; a restarted broker has it again.
        process: The broker.
    """

    def __init__(self, folder: str) -> None:
        self.port = steady_port(beside=(1,))
        listeners = f"PLAINTEXT://127.0.0.1:{self.port},SASL_PLAINTEXT://127.0.0.1:{self.port + 1}"
        self._arguments = (
            *(
                "--data",
                folder,
                "--set",
                f"listeners={listeners}",
                "--set",
                f"authorizer.class.name={STANDARD}",
            ),
            *("--set", "sasl.enabled.mechanisms=SCRAM-SHA-256"),
            *("--set", "super.users=User:ANONYMOUS", "--set", "message.max.bytes=20000000"),
            *("--set", "group.initial.rebalance.delay.ms=0"),
        )
        self.process = Process(*self._arguments)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    @property
    def signed_in_servers(self) -> str:
        """Where clients log in with SCRAM-SHA-256."""
        return f"127.0.0.1:{self.port + 1}"

    def restart(self) -> None:
        """Starts the broker again, which has ended."""
        self.process = Process(*self._arguments)


@contextmanager
def shown_cluster(folder: str) -> Iterator[ShownCluster]:
    """Runs a broker whose groups have members as long as this lasts."""
    with ExitStack() as stack:
        cluster = ShownCluster(folder)
        stack.callback(lambda: cluster.process.stop())
        servers = cluster.bootstrap_servers
        with Admin(servers) as admin:
            fill(admin, servers)
        stack.enter_context(_members(servers))
        yield cluster


def fill(admin: Admin, servers: str) -> None:
    """Creates topics, records, users, rules and quotas."""
    admin.create_topic("orders", 3, configs={"retention.ms": "86400000"})
    admin.create_topic("greetings", 1)
    admin.create_topic(HOSTILE, 1, configs={"max.message.bytes": "20000000"})
    with Producer(servers, max_request_size=20_000_000) as producer:
        for number in range(ORDERS):
            value = {"id": number, "customer": f"customer {number % 7}", "total": number * 1.5, "paid": True}
            producer.send("orders", json.dumps(value).encode(), key=f"order-{number}".encode())
        producer.send("greetings", b"hello", key=b"me", headers=[("language", b"en")])
        for hostile in HOSTILE_VALUES:
            short = hostile[:200]
            producer.send(HOSTILE, hostile, key=short, headers=[(short.decode("utf-8", "replace"), short)])
        producer.flush()
    for name in ("payments", HOSTILE_NAME):
        with Producer(servers, transactional_id=name) as producer:
            producer.begin_transaction()
            producer.send("greetings", b"in a transaction").result()
            producer.commit_transaction()
    hour_ago = time.time_ns() // 1_000_000 - 3_600_000
    for tier, records in (("app", AUDITED), ("warehouse", ARRIVED), (HOSTILE_NAME, AUDITED)):
        with Producer(servers, audit=tier) as producer:
            for _ in range(records):
                producer.send("counted", b"x", timestamp=hour_ago)
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    admin.alter_offsets(HOSTILE_NAME, {TopicPartition(HOSTILE, 0): 1})
    admin.alter_user_scram_credentials(
        [UserScramCredentialUpsertion(user, info, PASSWORD) for user in (USER, HOSTILE_NAME)]
    )
    for user in (USER, HOSTILE_NAME):
        for operation in (AclOperation.DESCRIBE, AclOperation.READ):
            where = (AclResourceType.TOPIC, "orders", ResourcePatternType.LITERAL)
            rule = AclBinding(*where, f"User:{user}", "*", operation, AclPermissionType.ALLOW)
            admin.create_acls([rule])
        admin.alter_client_quotas({"user": user, "client-id": user}, {"producer_byte_rate": 1 << 20})


@contextmanager
def _members(servers: str) -> Iterator[None]:
    with ExitStack() as stack:
        protocols: dict[str, Literal["classic", "consumer"]] = {"billing": "classic", "shipping": "consumer"}
        for group, protocol in protocols.items():
            consumer = Consumer(
                servers,
                group_id=group,
                group_protocol=protocol,
                auto_offset_reset="earliest",
                max_poll_records=10,
                enable_auto_commit=False,
            )
            stack.enter_context(consumer)
            consumer.subscribe(["orders"])
            wait_until(functools.partial(consumer.poll, timeout=1))
            consumer.commit()
        with Admin(servers) as admin:
            admin.alter_configs("group", "workers", set={"share.auto.offset.reset": "earliest"})
        share = stack.enter_context(ShareConsumer(servers, group_id="workers"))
        share.subscribe(["greetings"])
        wait_until(lambda: share.poll(timeout=1))
        yield
