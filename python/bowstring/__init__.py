"""Exposes Bowstring, an event-streaming broker that speaks Kafka's protocol.

    with bowstring.Broker() as broker, bowstring.Producer(broker.bootstrap_servers) as producer:
        producer.send("greetings", b"hello").result()

Names are loaded on first use, so that `bowstring serve` loads nothing that it does not need.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bowstring import aio as aio
    from bowstring import spark as spark
    from bowstring.broker import Broker as Broker
    from bowstring.clients.admin.admin import Admin as Admin
    from bowstring.clients.admin.results import NewTopic as NewTopic
    from bowstring.clients.consumer.consumer import Consumer as Consumer
    from bowstring.clients.errors import BrokerError as BrokerError
    from bowstring.clients.errors import ClientError as ClientError
    from bowstring.clients.producer.producer import Producer as Producer
    from bowstring.clients.records import OffsetAndMetadata as OffsetAndMetadata
    from bowstring.clients.records import Record as Record
    from bowstring.clients.records import SubscriptionPattern as SubscriptionPattern
    from bowstring.clients.records import TopicPartition as TopicPartition
    from bowstring.clients.share.consumer import ShareConsumer as ShareConsumer
    from bowstring.clients.share.records import ShareRecord as ShareRecord
    from bowstring.cluster.embedded import Cluster as Cluster
    from bowstring.exactly_once import transform as transform
    from bowstring.kernels.function import kernel as kernel
    from bowstring.tables import Records as Records
    from bowstring.tables import read as read
    from bowstring.tables import scan as scan
    from bowstring.values.avro_format import Avro as Avro
    from bowstring.values.dead_letter import DeadLetter as DeadLetter
    from bowstring.values.json_format import Json as Json
    from bowstring.values.protobuf_format import Protobuf as Protobuf

from bowstring.version import __version__

_MODULES = {
    "Admin": "clients.admin.admin",
    "Avro": "values",
    "Broker": "broker",
    "BrokerError": "clients.errors",
    "ClientError": "clients.errors",
    "Cluster": "cluster.embedded",
    "Consumer": "clients.consumer.consumer",
    "DeadLetter": "values",
    "Json": "values",
    "NewTopic": "clients.admin.results",
    "OffsetAndMetadata": "clients.records",
    "Producer": "clients.producer.producer",
    "Protobuf": "values",
    "Record": "clients.records",
    "Records": "tables",
    "ShareConsumer": "clients.share.consumer",
    "ShareRecord": "clients.share.records",
    "SubscriptionPattern": "clients.records",
    "TopicPartition": "clients.records",
    "kernel": "kernels.function",
    "read": "tables",
    "scan": "tables",
    "transform": "exactly_once",
}
# Loaded as whole packages on first use.
_PACKAGES = ("aio", "spark")
__all__ = [
    "Admin",
    "Avro",
    "Broker",
    "BrokerError",
    "ClientError",
    "Cluster",
    "Consumer",
    "DeadLetter",
    "Json",
    "NewTopic",
    "OffsetAndMetadata",
    "Producer",
    "Protobuf",
    "Record",
    "Records",
    "ShareConsumer",
    "ShareRecord",
    "SubscriptionPattern",
    "TopicPartition",
    "__version__",
    "aio",
    "kernel",
    "read",
    "scan",
    "spark",
    "transform",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _PACKAGES:
        return import_module(f"bowstring.{name}")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'bowstring' has no attribute {name!r}")
    value = getattr(import_module(f"bowstring.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_PACKAGES})
