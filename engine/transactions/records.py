"""Encodes and decodes the records of ``__transaction_state``."""

from itertools import groupby
from typing import Final

from bowstring._native.protocol.message_codec import decode
from bowstring.engine.coordinators.effects import Record
from bowstring.engine.transactions.transaction import Status, Transaction
from bowstring.protocol.records.coordinator import encode_key, encode_value
from bowstring.protocol.records.transaction_log import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

_KEY_TYPE: Final = 0
_FLEXIBLE: Final = 1
"""Version of values since transaction version 1, with all producer ids."""


def transaction_record(transaction: Transaction, level: int) -> Record:
    """Encodes a transaction; `level` is the finalized transaction.version."""
    version = _FLEXIBLE if level >= 1 else 0
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.status),
        transaction_partitions=_partitions(transaction),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
    )
    if version >= _FLEXIBLE:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return tombstone(transaction.transactional_id)[0], encode_value(value, version)


def tombstone(transactional_id: str) -> Record:
    """Encodes that a transactional id is forgotten."""
    return encode_key(TransactionLogKey(transactional_id=transactional_id)), None


def _partitions(transaction: Transaction) -> list[PartitionsSchema] | None:
    if transaction.status is Status.EMPTY:
        return None
    return [
        PartitionsSchema(topic=topic, partition_ids=[index for _, index in each])
        for topic, each in groupby(sorted(transaction.partitions), key=lambda each: each[0])
    ]


def read_key(key: bytes) -> str | None:
    """Decodes the transactional id of a record; None for a record of an unknown type.

    Raises:
        ProtocolError: The key is malformed.
    """
    if int.from_bytes(key[:2], "big", signed=True) != _KEY_TYPE:
        return None
    return decode(TransactionLogKey, 0, key, 2).transactional_id


def read_value(transactional_id: str, value: bytes) -> Transaction:
    """Decodes a transaction.

    Raises:
        ProtocolError: The value is malformed, or of an unknown version.
        ValueError: Its status is unknown.
    """
    body = decode(TransactionLogValue, int.from_bytes(value[:2], "big", signed=True), value, 2)
    return Transaction(
        transactional_id,
        body.producer_id,
        body.producer_epoch,
        body.transaction_timeout_ms,
        Status(body.transaction_status),
        frozenset(
            (each.topic, index) for each in body.transaction_partitions or () for index in each.partition_ids
        ),
        body.transaction_start_timestamp_ms,
        body.transaction_last_update_timestamp_ms,
        body.client_transaction_version,
        body.previous_producer_id,
        body.next_producer_id,
    )
