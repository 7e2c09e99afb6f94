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
    from bowstring.broker import BrokerConfigError as BrokerConfigError
    from bowstring.clients.admin.acls import AclBinding as AclBinding
    from bowstring.clients.admin.acls import AclBindingFilter as AclBindingFilter
    from bowstring.clients.admin.admin import Admin as Admin
    from bowstring.clients.admin.delegation_tokens import DelegationToken as DelegationToken
    from bowstring.clients.admin.results import NewTopic as NewTopic
    from bowstring.clients.admin.scram_users import ScramCredentialInfo as ScramCredentialInfo
    from bowstring.clients.admin.scram_users import ScramMechanism as ScramMechanism
    from bowstring.clients.admin.scram_users import UserScramCredentialDeletion as UserScramCredentialDeletion
    from bowstring.clients.admin.scram_users import (
        UserScramCredentialUpsertion as UserScramCredentialUpsertion,
    )
    from bowstring.clients.audit import Audit as Audit
    from bowstring.clients.consumer.consumer import Consumer as Consumer
    from bowstring.clients.errors import AuthenticationError as AuthenticationError
    from bowstring.clients.errors import AuthorizationError as AuthorizationError
    from bowstring.clients.errors import BootstrapResolutionError as BootstrapResolutionError
    from bowstring.clients.errors import BrokerError as BrokerError
    from bowstring.clients.errors import BrokerUnreachableError as BrokerUnreachableError
    from bowstring.clients.errors import BufferFullError as BufferFullError
    from bowstring.clients.errors import ClientError as ClientError
    from bowstring.clients.errors import ClientTimeoutError as ClientTimeoutError
    from bowstring.clients.errors import ClosedError as ClosedError
    from bowstring.clients.errors import CommitFailedError as CommitFailedError
    from bowstring.clients.errors import ConfigError as ConfigError
    from bowstring.clients.errors import ConnectionLostError as ConnectionLostError
    from bowstring.clients.errors import CorruptBatchError as CorruptBatchError
    from bowstring.clients.errors import FencedError as FencedError
    from bowstring.clients.errors import ForkedError as ForkedError
    from bowstring.clients.errors import GarbledAnswerError as GarbledAnswerError
    from bowstring.clients.errors import GroupError as GroupError
    from bowstring.clients.errors import LocalReadsUnavailableError as LocalReadsUnavailableError
    from bowstring.clients.errors import MisroutedError as MisroutedError
    from bowstring.clients.errors import MissingPackageError as MissingPackageError
    from bowstring.clients.errors import NoBrokerError as NoBrokerError
    from bowstring.clients.errors import NoOffsetError as NoOffsetError
    from bowstring.clients.errors import OffsetOutOfRangeError as OffsetOutOfRangeError
    from bowstring.clients.errors import ProducerFencedError as ProducerFencedError
    from bowstring.clients.errors import ProtocolError as ProtocolError
    from bowstring.clients.errors import RecordTooLargeError as RecordTooLargeError
    from bowstring.clients.errors import RequestTimedOutError as RequestTimedOutError
    from bowstring.clients.errors import TlsError as TlsError
    from bowstring.clients.errors import TopicExistsError as TopicExistsError
    from bowstring.clients.errors import TransactionAbortedError as TransactionAbortedError
    from bowstring.clients.errors import TransactionFailedError as TransactionFailedError
    from bowstring.clients.errors import UndecodableRecordError as UndecodableRecordError
    from bowstring.clients.errors import UnknownTopicError as UnknownTopicError
    from bowstring.clients.errors import UnresolvedNameError as UnresolvedNameError
    from bowstring.clients.errors import UnsupportedApiError as UnsupportedApiError
    from bowstring.clients.producer.producer import Producer as Producer
    from bowstring.clients.records import OffsetAndMetadata as OffsetAndMetadata
    from bowstring.clients.records import Record as Record
    from bowstring.clients.records import RecordMetadata as RecordMetadata
    from bowstring.clients.records import SubscriptionPattern as SubscriptionPattern
    from bowstring.clients.records import TopicPartition as TopicPartition
    from bowstring.clients.registry.registry import Registry as Registry
    from bowstring.clients.registry.registry_errors import SchemaRegistryError as SchemaRegistryError
    from bowstring.clients.share.consumer import ShareConsumer as ShareConsumer
    from bowstring.clients.share.records import ShareRecord as ShareRecord
    from bowstring.cluster.cluster import Cluster as Cluster
    from bowstring.cluster.process import NodeError as NodeError
    from bowstring.exactly_once import transform as transform
    from bowstring.kernels.function import KernelError as KernelError
    from bowstring.kernels.function import kernel as kernel
    from bowstring.protocol.acls import AclOperation as AclOperation
    from bowstring.protocol.acls import AclPermissionType as AclPermissionType
    from bowstring.protocol.acls import AclResourceType as AclResourceType
    from bowstring.protocol.acls import ResourcePatternType as ResourcePatternType
    from bowstring.tables import Records as Records
    from bowstring.tables import read as read
    from bowstring.tables import scan as scan
    from bowstring.tables import write as write
    from bowstring.values.avro_format import Avro as Avro
    from bowstring.values.dead_letter import DeadLetter as DeadLetter
    from bowstring.values.errors import ValueDecodeError as ValueDecodeError
    from bowstring.values.errors import ValueEncodeError as ValueEncodeError
    from bowstring.values.errors import ValueSchemaError as ValueSchemaError
    from bowstring.values.errors import ValuesTooLargeError as ValuesTooLargeError
    from bowstring.values.json_format import Json as Json
    from bowstring.values.protobuf_format import Protobuf as Protobuf
    from bowstring.values.text_format import Text as Text

from bowstring.distribution import IS_CLIENT_ONLY, not_in_client, refuse_two_distributions
from bowstring.version import __version__

refuse_two_distributions()
_MODULES = {
    "AclBinding": "clients.admin.acls",
    "AclBindingFilter": "clients.admin.acls",
    "AclOperation": "protocol.acls",
    "AclPermissionType": "protocol.acls",
    "AclResourceType": "protocol.acls",
    "Admin": "clients.admin.admin",
    "Audit": "clients.audit",
    "AuthenticationError": "clients.errors",
    "AuthorizationError": "clients.errors",
    "Avro": "values",
    "BootstrapResolutionError": "clients.errors",
    "Broker": "broker",
    "BrokerConfigError": "broker",
    "BrokerError": "clients.errors",
    "BrokerUnreachableError": "clients.errors",
    "BufferFullError": "clients.errors",
    "ClientError": "clients.errors",
    "ClientTimeoutError": "clients.errors",
    "ClosedError": "clients.errors",
    "Cluster": "cluster.cluster",
    "CommitFailedError": "clients.errors",
    "ConfigError": "clients.errors",
    "ConnectionLostError": "clients.errors",
    "Consumer": "clients.consumer.consumer",
    "CorruptBatchError": "clients.errors",
    "DeadLetter": "values",
    "DelegationToken": "clients.admin.delegation_tokens",
    "FencedError": "clients.errors",
    "ForkedError": "clients.errors",
    "GarbledAnswerError": "clients.errors",
    "GroupError": "clients.errors",
    "Json": "values",
    "KernelError": "kernels.function",
    "LocalReadsUnavailableError": "clients.errors",
    "MisroutedError": "clients.errors",
    "MissingPackageError": "clients.errors",
    "NewTopic": "clients.admin.results",
    "NoBrokerError": "clients.errors",
    "NoOffsetError": "clients.errors",
    "NodeError": "cluster.process",
    "OffsetAndMetadata": "clients.records",
    "OffsetOutOfRangeError": "clients.errors",
    "Producer": "clients.producer.producer",
    "ProducerFencedError": "clients.errors",
    "Protobuf": "values",
    "ProtocolError": "clients.errors",
    "Record": "clients.records",
    "RecordMetadata": "clients.records",
    "RecordTooLargeError": "clients.errors",
    "Records": "tables",
    "Registry": "clients.registry",
    "RequestTimedOutError": "clients.errors",
    "ResourcePatternType": "protocol.acls",
    "SchemaRegistryError": "clients.registry.registry_errors",
    "ScramCredentialInfo": "clients.admin.scram_users",
    "ScramMechanism": "clients.admin.scram_users",
    "ShareConsumer": "clients.share.consumer",
    "ShareRecord": "clients.share.records",
    "SubscriptionPattern": "clients.records",
    "Text": "values",
    "TlsError": "clients.errors",
    "TopicExistsError": "clients.errors",
    "TopicPartition": "clients.records",
    "TransactionAbortedError": "clients.errors",
    "TransactionFailedError": "clients.errors",
    "UndecodableRecordError": "clients.errors",
    "UnknownTopicError": "clients.errors",
    "UnresolvedNameError": "clients.errors",
    "UnsupportedApiError": "clients.errors",
    "UserScramCredentialDeletion": "clients.admin.scram_users",
    "UserScramCredentialUpsertion": "clients.admin.scram_users",
    "ValueDecodeError": "values",
    "ValueEncodeError": "values",
    "ValueSchemaError": "values",
    "ValuesTooLargeError": "values",
    "kernel": "kernels.function",
    "read": "tables",
    "scan": "tables",
    "transform": "exactly_once",
    "write": "tables",
}
# Loaded as whole packages on first use.
_PACKAGES = ("aio", "spark")
__all__ = [
    "AclBinding",
    "AclBindingFilter",
    "AclOperation",
    "AclPermissionType",
    "AclResourceType",
    "Admin",
    "AuthenticationError",
    "AuthorizationError",
    "Avro",
    "BootstrapResolutionError",
    "Broker",
    "BrokerConfigError",
    "BrokerError",
    "BrokerUnreachableError",
    "BufferFullError",
    "ClientError",
    "ClientTimeoutError",
    "ClosedError",
    "Cluster",
    "CommitFailedError",
    "ConfigError",
    "ConnectionLostError",
    "Consumer",
    "CorruptBatchError",
    "DeadLetter",
    "DelegationToken",
    "FencedError",
    "ForkedError",
    "GarbledAnswerError",
    "GroupError",
    "Json",
    "KernelError",
    "LocalReadsUnavailableError",
    "MisroutedError",
    "MissingPackageError",
    "NewTopic",
    "NoBrokerError",
    "NoOffsetError",
    "NodeError",
    "OffsetAndMetadata",
    "OffsetOutOfRangeError",
    "Producer",
    "ProducerFencedError",
    "Protobuf",
    "ProtocolError",
    "Record",
    "RecordMetadata",
    "RecordTooLargeError",
    "Records",
    "Registry",
    "RequestTimedOutError",
    "ResourcePatternType",
    "SchemaRegistryError",
    "ScramCredentialInfo",
    "ScramMechanism",
    "ShareConsumer",
    "ShareRecord",
    "SubscriptionPattern",
    "Text",
    "TlsError",
    "TopicExistsError",
    "TopicPartition",
    "TransactionAbortedError",
    "TransactionFailedError",
    "UndecodableRecordError",
    "UnknownTopicError",
    "UnresolvedNameError",
    "UnsupportedApiError",
    "UserScramCredentialDeletion",
    "UserScramCredentialUpsertion",
    "ValueDecodeError",
    "ValueEncodeError",
    "ValueSchemaError",
    "ValuesTooLargeError",
    "__version__",
    "aio",
    "kernel",
    "read",
    "scan",
    "spark",
    "transform",
    "write",
]

_NOT_IN_CLIENT = ("Broker", "BrokerConfigError", "Cluster", "NodeError", "spark") if IS_CLIENT_ONLY else ()
for _name in _NOT_IN_CLIENT:
    __all__.remove(_name)


def __getattr__(name: str) -> Any:
    import gc
    from importlib import import_module

    if name in _NOT_IN_CLIENT:
        raise ImportError(not_in_client(f"bowstring.{name}"))
    if name in _PACKAGES:
        return import_module(f"bowstring.{name}")
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'bowstring' has no attribute {name!r}")
    # What is loaded stays: collecting garbage in it takes a tenth of the time.
    collects = gc.isenabled()
    gc.disable()
    try:
        value = getattr(import_module(f"bowstring.{module}"), name)
    finally:
        if collects:
            gc.enable()
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
