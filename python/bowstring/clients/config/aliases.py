"""Types the keywords of other clients that differ from ours by more than dots, for type checkers.

The tables in client.py and clients/producer/config.py have their meaning. Names that have no effect here are
left out, so that type checkers refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict


class ProducerAliases(TypedDict, total=False):
    """Keywords of Producer."""

    metadata_broker_list: str
    error_cb: Callable[[Any], object]
    socket_connection_setup_timeout_ms: int
    request_required_acks: int | str
    enable_idempotence: bool
    compression_type: str | None
    compression_codec: str | None
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    queue_buffering_max_ms: float
    queue_buffering_max_kbytes: int
    message_max_bytes: int
    socket_timeout_ms: int
    message_timeout_ms: int
    message_send_max_retries: int
    max_in_flight_requests_per_connection: int
    topic_metadata_refresh_interval_ms: int
    allow_auto_create_topics: bool
    partitioner_class: str


class ConsumerAliases(TypedDict, total=False):
    """Keywords of Consumer."""

    metadata_broker_list: str
    error_cb: Callable[[Any], object]
    partition_assignment_strategy: str | Iterable[Any]
    fetch_message_max_bytes: int
    queued_max_messages_kbytes: int
    fetch_wait_max_ms: int
    socket_timeout_ms: int
    default_api_timeout_ms: int
    topic_metadata_refresh_interval_ms: int
    allow_auto_create_topics: bool


class ShareConsumerAliases(TypedDict, total=False):
    """Keywords of ShareConsumer."""

    metadata_broker_list: str
    error_cb: Callable[[Any], object]
    share_acknowledgement_mode: str
    share_acquire_mode: str
    fetch_wait_max_ms: int
    socket_timeout_ms: int
    default_api_timeout_ms: int


class AdminAliases(TypedDict, total=False):
    """Keywords of Admin."""

    metadata_broker_list: str
    error_cb: Callable[[Any], object]
    request_timeout_ms: int
    socket_timeout_ms: int
    default_api_timeout_ms: int
