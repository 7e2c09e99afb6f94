"""Types the keywords of other clients that differ from ours by more than dots, for type checkers.

The tables in client.py and clients/producer/config.py have their meaning. Names that have no effect here are
left out, so that type checkers refuse them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypedDict


class SecurityAliases(TypedDict, total=False):
    """Keywords of TLS and SASL of every client; see bowstring.security.security_names."""

    enable_ssl_certificate_verification: bool | str | None
    https_ca_location: str | None
    https_ca_pem: str | None
    oauth_cb: Any
    sasl_jaas_config: str | None
    sasl_kerberos_domain_name: str | None
    sasl_kerberos_keytab: str | None
    sasl_kerberos_principal: str | None
    sasl_kerberos_service_name: str | None
    sasl_login_read_timeout_ms: int | None
    sasl_mechanism: str | None
    sasl_mechanisms: str | None
    sasl_oauth_token_provider: Any
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_client_id: str | None
    sasl_oauthbearer_client_secret: str | None
    sasl_oauthbearer_extensions: str | None
    sasl_oauthbearer_method: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_token: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_token_function: Any
    sasl_password: str | None
    sasl_plain_password: str | None
    sasl_plain_username: str | None
    sasl_username: str | None
    security_protocol: str | None
    ssl_ca_location: str | None
    ssl_ca_pem: str | None
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_certificate_location: str | None
    ssl_certificate_pem: str | None
    ssl_check_hostname: bool | str | None
    ssl_cipher_suites: str | None
    ssl_ciphers: str | None
    ssl_enabled_protocols: str | None
    ssl_endpoint_identification_algorithm: str | None
    ssl_key_location: str | None
    ssl_key_password: str | None
    ssl_key_pem: str | None
    ssl_keyfile: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | None
    ssl_keystore_type: str | None
    ssl_password: str | None
    ssl_truststore_certificates: str | None
    ssl_truststore_location: str | None
    ssl_truststore_password: str | None
    ssl_truststore_type: str | None


class AuditAliases(TypedDict, total=False):
    """Keywords of the audit of counts; see bowstring.clients.audit."""

    audit_tier: str
    audit_topic: str
    audit_window_ms: int | str
    audit_report_interval_ms: int | str
    audit_bootstrap_servers: str


class ProducerAliases(SecurityAliases, AuditAliases, total=False):
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


class ConsumerAliases(SecurityAliases, AuditAliases, total=False):
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


class ShareConsumerAliases(SecurityAliases, total=False):
    """Keywords of ShareConsumer."""

    metadata_broker_list: str
    error_cb: Callable[[Any], object]
    share_acknowledgement_mode: str
    share_acquire_mode: str
    fetch_wait_max_ms: int
    socket_timeout_ms: int
    default_api_timeout_ms: int


class AdminAliases(SecurityAliases, total=False):
    """Keywords of Admin."""

    metadata_broker_list: str
    error_cb: Callable[[Any], object]
    request_timeout_ms: int
    socket_timeout_ms: int
    default_api_timeout_ms: int
