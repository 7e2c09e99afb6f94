"""Measures the coordinators of groups and transactions, by loads of bench/coordinators on both brokers."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict

from bench.cases.clients import run_client
from bench.cases.exactly_once import java_transactions
from bench.coordinators.loads import Order
from bench.lab import Lab
from bench.peers.bowstring import Bowstring
from bench.peers.install import PeerError
from bench.peers.peer import Peer
from bench.results import CaseResult

TIMEOUT_SECONDS = 900.0
PROTOCOL_CLIENT = "one thread with epoll that speaks the protocol, in a process of its own"

CLASSIC, CONSUMER = "classic", "consumer"
MEMBERS_PER_GROUP = 100
# A classic consumer's heartbeat.interval.ms, and group.consumer.heartbeat.interval.ms.
INTERVALS_S = {CLASSIC: 3.0, CONSUMER: 5.0}
COMMITTERS = 32
METADATA_TOPICS = 100
TRANSACTION_PARTITIONS = 10
PRODUCERS = 8
SHARING_MEMBERS = 4

DYING_SESSION_SECONDS, DYING_INTERVAL_SECONDS = 6, 1
DYING_PARTITIONS_PER_MEMBER = 10
# Of the broker, so that a death is noticed within seconds. Members learn by their heartbeats what is theirs.
DYING_SETTINGS = {
    "group.consumer.session.timeout.ms": str(1000 * DYING_SESSION_SECONDS),
    "group.consumer.min.session.timeout.ms": str(1000 * DYING_SESSION_SECONDS),
    "group.consumer.heartbeat.interval.ms": str(1000 * DYING_INTERVAL_SECONDS),
    "group.consumer.min.heartbeat.interval.ms": str(1000 * DYING_INTERVAL_SECONDS),
}


def run_load(load: str, peer: Peer, topic: str, **numbers: float) -> dict[str, float]:
    """Runs a load of bench/coordinators on the broker and returns its figures.

    Raises:
        PeerError: It failed or did not end in time.
    """
    order = Order(load, peer.bootstrap, peer.pid, topic, numbers)
    command = [sys.executable, "-m", "bench.coordinators", json.dumps(asdict(order))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        raise PeerError(f"{load} did not end within {TIMEOUT_SECONDS:.0f} s") from None
    if done.returncode:
        raise PeerError(f"{load} failed ({done.returncode}):\n{done.stderr[-2000:]}")
    return {name: float(value) for name, value in json.loads(done.stdout).items()}


def _on_shared_peer(
    lab: Lab, case: CaseResult, partitions: int, measure: Callable[[Peer, str], dict[str, float]]
) -> CaseResult:
    """Runs `measure` on the broker that all cases share, with a new topic."""

    def with_topic(peer_name: str) -> dict[str, float]:
        peer = lab.peer(peer_name)
        topic = lab.new_topic(peer, partitions)
        values = measure(peer, topic)
        lab.delete_topic(peer, topic)
        return values

    return lab.alternate(case, with_topic)


def heartbeats(lab: Lab, name: str, title: str, protocol: str) -> CaseResult:
    """Measures the heartbeats of many members, each with a connection of its own."""
    size = lab.size
    groups = max(1, size.group_members // MEMBERS_PER_GROUP)
    interval_s = min(INTERVALS_S[protocol], size.load_seconds)
    facts = {
        "members": f"{size.group_members:,} in {groups} groups, each with its own connection",
        "heartbeats": f"every {interval_s:g} s from each member, at different times",
        "measured": f"{size.load_seconds:g} s, {size.load_warm_up_seconds:g} s after all members are stable",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer: Peer, topic: str) -> dict[str, float]:
        return run_load(
            f"{protocol}-heartbeats",
            peer,
            topic,
            members=size.group_members,
            groups=groups,
            interval_s=interval_s,
            warm_seconds=size.load_warm_up_seconds,
            seconds=size.load_seconds,
        )

    return _on_shared_peer(lab, CaseResult(name, title, facts), MEMBERS_PER_GROUP, measure)


def commits(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures OffsetCommit of one partition, as quickly as the broker answers."""
    size = lab.size
    facts = {
        "members": f"{COMMITTERS}, each alone in its group, with one request in flight",
        "request": "OffsetCommit 9 of one partition",
        "measured": f"{size.load_seconds:g} s, {size.load_warm_up_seconds:g} s after the first",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer: Peer, topic: str) -> dict[str, float]:
        return run_load(
            "commits",
            peer,
            topic,
            members=COMMITTERS,
            groups=COMMITTERS,
            interval_s=INTERVALS_S[CLASSIC],
            partitions=1,
            warm_seconds=size.load_warm_up_seconds,
            seconds=size.load_seconds,
        )

    return _on_shared_peer(lab, CaseResult(name, title, facts), 1, measure)


STORMED = {
    "offset-fetches": "OffsetFetch 9 of one partition, each of its own group",
    "coordinator-lookups": "FindCoordinator 6 of one group each",
    "metadata-of-topics": f"Metadata 13 of {METADATA_TOPICS} topics by name, with six partitions each",
    "offset-listings": "ListOffsets 10 of the end of one partition",
    "rejoins": "JoinGroup 9 of a member that is alone in its group, counted, and SyncGroup 5",
    "topic-creations": "CreateTopics 7 of one topic of one partition, from eight connections",
}


def storm(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures one small request of `STORMED`, as quickly as the broker answers."""
    size = lab.size
    facts = {
        "request": STORMED[name],
        "connections": f"{COMMITTERS}, with one request in flight",
        "measured": f"{size.load_seconds:g} s, {size.load_warm_up_seconds:g} s after the first",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer: Peer, topic: str) -> dict[str, float]:
        return run_load(
            name,
            peer,
            topic,
            connections=COMMITTERS,
            topics=METADATA_TOPICS,
            warm_seconds=size.load_warm_up_seconds,
            seconds=size.load_seconds,
        )

    return _on_shared_peer(lab, CaseResult(name, title, facts), 1, measure)


def epoch_bumps(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures InitProducerId that raises an epoch, acknowledged from the medium; Kafka's from its page
    cache.
    """
    size = lab.size
    facts = {
        "request": "InitProducerId 5 of a transactional id that each connection has for itself",
        "connections": f"{COMMITTERS}, with one request in flight; alone_: one",
        "Bowstring": "bowstring.durability=commit",
        "measured": f"{size.load_seconds:g} s, {size.load_warm_up_seconds:g} s after the first",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer_name: str) -> dict[str, float]:
        fresh = lab.new_peer(peer_name)
        if isinstance(fresh, Bowstring):
            fresh.durability = "commit"
        with fresh as peer:
            together, alone = (
                run_load(
                    "epoch-bumps",
                    peer,
                    f"{name}-{connections}",
                    connections=connections,
                    warm_seconds=size.load_warm_up_seconds,
                    seconds=size.load_seconds,
                )
                for connections in (COMMITTERS, 1)
            )
        return together | {f"alone_{key}": value for key, value in alone.items()}

    return lab.alternate(CaseResult(name, title, facts), measure)


def loading(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures a start with very many committed offsets in one partition of __consumer_offsets."""
    size = lab.size
    groups = size.loaded_groups
    facts = {
        "offsets": f"{groups * size.loaded_partitions:,}: {size.loaded_partitions:,} of each of {groups:,} "
        "groups, all in one partition of __consumer_offsets",
        "measured": "from the first ApiVersions answer after a clean stop until OffsetFetch answers for the "
        "last group; a group of another partition is asked meanwhile",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer_name: str) -> dict[str, float]:
        numbers = {"groups": groups, "partitions": size.loaded_partitions}
        with lab.new_peer(peer_name) as peer:
            topic = lab.new_topic(peer, size.loaded_partitions)
            filled = run_load("fill-offsets", peer, topic, **numbers)
            peer.stop()
            peer.start()
            values = run_load("await-offsets", peer, topic, **numbers)
        return values | filled | {"start_seconds": peer.start_seconds}

    return lab.alternate(CaseResult(name, title, facts), measure)


def member_dies(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures how a KIP-848 group settles after the death of a member."""
    size = lab.size
    partitions = size.dying_members * DYING_PARTITIONS_PER_MEMBER
    facts = {
        "group": f"{size.dying_members} members over {partitions:,} partitions of one topic, uniform",
        "broker": ", ".join(f"{key}={value}" for key, value in DYING_SETTINGS.items()),
        "measured": "from the end of the member's session to the last changed assignment; partitions that "
        "another owner had to give up, or that were the dead member's",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer_name: str) -> dict[str, float]:
        with lab.new_peer(peer_name, DYING_SETTINGS) as peer:
            topic = lab.new_topic(peer, partitions)
            return run_load(
                "member-dies",
                peer,
                topic,
                members=size.dying_members,
                groups=1,
                partitions=partitions,
                session_s=DYING_SESSION_SECONDS,
                interval_s=DYING_INTERVAL_SECONDS,
            )

    return lab.alternate(CaseResult(name, title, facts), measure)


def transactions(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures transactions that write a record to each of some partitions and commit."""
    size = lab.size
    facts = {
        "transaction": f"one record of 100 B to each of {TRANSACTION_PARTITIONS} partitions, then EndTxn",
        "protocol": "transaction version 2: Produce 12 and EndTxn 5",
        "producers": f"{PRODUCERS} in one process; alone_: one; java_, bowstring_, confluent_: one of a "
        f"library, {size.client_transactions:,} transactions after a quarter as warm-up",
        "measured": f"{size.load_seconds:g} s, {size.load_warm_up_seconds:g} s after the first",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer: Peer, topic: str) -> dict[str, float]:
        def load(producers: int) -> dict[str, float]:
            return run_load(
                "transactions",
                peer,
                topic,
                producers=producers,
                partitions=TRANSACTION_PARTITIONS,
                warm_seconds=size.load_warm_up_seconds,
                seconds=size.load_seconds,
            )

        together, alone = load(PRODUCERS), load(1)
        java = java_transactions(lab, peer, topic, TRANSACTION_PARTITIONS, size.client_transactions)
        libraries = {
            f"{name}_commits_per_second": run_client(
                f"{name}-transactions", peer, topic, size.client_transactions
            ).records_per_second
            for name in ("bowstring", "confluent")
        }
        return together | {f"alone_{key}": value for key, value in alone.items()} | java | libraries

    return _on_shared_peer(lab, CaseResult(name, title, facts), TRANSACTION_PARTITIONS, measure)


def sharing(lab: Lab, name: str, title: str) -> CaseResult:
    """Measures a share group whose members acknowledge each record by itself (KIP-932)."""
    size = lab.size
    facts = {
        "records": f"{size.shared_records:,} of 100 B in one partition, a tenth more before",
        "members": f"{SHARING_MEMBERS} in one process, which fetch 500 records at most",
        "acknowledgement": "accept, each record in a batch of its own, in the next ShareFetch",
        "client": PROTOCOL_CLIENT,
    }

    def measure(peer: Peer, topic: str) -> dict[str, float]:
        return run_load(
            "shared-records",
            peer,
            topic,
            members=SHARING_MEMBERS,
            records=size.shared_records,
            warm_records=size.shared_records // 10,
        )

    return _on_shared_peer(lab, CaseResult(name, title, facts), 1, measure)
