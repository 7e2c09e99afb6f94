"""Creates the registry's topic, and checks one that exists: one partition, compacted, as Confluent's
registries need."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping

from bowstring.clients.admin.admin import Admin
from bowstring.clients.errors import BrokerError, ClientError, TopicExistsError, UnknownTopicError
from bowstring.registry.store.store_target import StoreTarget

_log = logging.getLogger("bowstring.registry")

RETRY_PAUSE_S = 0.5
CLEANUP = "cleanup.policy"
COMPACT = "compact"
SYNC_CONFIG = "min.insync.replicas"
# With so many replicas, one may be down while registries write to two.
SYNCED_REPLICAS = 3


class UnfitTopicError(ClientError):
    """The topic cannot keep schemas; the message says why, and what to do."""


def prepare_topic(target: StoreTarget, replication_factor: int, timeout_s: float) -> None:
    """Creates the topic if it does not exist, and checks it. Blocks.

    Args:
        target: the cluster, and the name of the topic.
        replication_factor: of a new topic; fewer if there are fewer brokers.
        timeout_s: how long to wait for brokers.

    Raises:
        UnfitTopicError: the topic has several partitions, or is not only compacted.
        ClientError: no broker answered in time, or access is denied.
    """
    deadline = time.monotonic() + timeout_s
    with Admin(
        target.bootstrap_servers,
        client_id="bowstring-registry",
        security=target.security,
        timeout_ms=max(1, int(timeout_s * 1000)),
    ) as admin:
        while True:
            try:
                if not _exists(admin, target.topic):
                    _create(admin, target.topic, replication_factor)
                _check(admin, target.topic, replication_factor)
            except TopicExistsError:
                continue  # another registry was faster
            except ClientError as error:
                starting = isinstance(error, BrokerError) and error.name == "INVALID_REPLICATION_FACTOR"
                missing = isinstance(error, UnknownTopicError)  # to a broker that lags behind
                if not (error.retriable or starting or missing) or time.monotonic() >= deadline:
                    raise
                time.sleep(RETRY_PAUSE_S)
            else:
                return


def _exists(admin: Admin, topic: str) -> bool:
    try:
        admin.describe_topic(topic)
    except UnknownTopicError:
        return False
    return True


def _create(admin: Admin, topic: str, replication_factor: int) -> None:
    brokers = len(admin.describe_cluster().brokers)
    replicas = min(brokers, replication_factor)
    configs = {CLEANUP: COMPACT}
    if replicas >= SYNCED_REPLICAS:
        configs[SYNC_CONFIG] = "2"
    admin.create_topic(topic, partitions=1, replication_factor=replicas, configs=configs)
    few = (
        f", not {replication_factor}, because there are no more brokers"
        if replicas < replication_factor
        else ""
    )
    _log.info("created topic %r for schemas, with %d replicas%s", topic, replicas, few)


def _check(admin: Admin, topic: str, replication_factor: int) -> None:
    partitions = admin.describe_topic(topic).partitions
    configs = admin.describe_configs("topic", topic, names=[CLEANUP])
    fault = fault_of(topic, len(partitions), {name: entry.value for name, entry in configs.items()})
    if fault is not None:
        raise UnfitTopicError(fault)
    replicas = min((len(each.replicas) for each in partitions.values()), default=0)
    brokers = len(admin.describe_cluster().brokers)
    if replicas < min(brokers, replication_factor):
        _log.warning(
            "topic %r has %d replicas on %d brokers; add replicas, so that schemas survive a broker",
            topic,
            replicas,
            brokers,
        )


def fault_of(topic: str, partitions: int, configs: Mapping[str, str | None]) -> str | None:
    """Returns why a topic cannot keep schemas, and what to do; None if it can."""
    if partitions != 1:
        return (
            f"topic {topic!r} has {partitions} partitions, but schemas need one, as they have one order; "
            "name another topic, or create this one anew with one partition"
        )
    policy = configs.get(CLEANUP)
    if policy != COMPACT:
        return (
            f"topic {topic!r} has {CLEANUP}={policy}, which deletes schemas after a time; set {COMPACT}: "
            f"bowstring configs set topic {topic} {CLEANUP}={COMPACT}"
        )
    return None
