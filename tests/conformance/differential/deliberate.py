"""Lists deliberate differences from Apache Kafka's answers, each with its reason. The suite fails on any other."""

from fnmatch import fnmatchcase
from typing import Any, Final, NamedTuple, Protocol


class _Found(Protocol):
    @property
    def where(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def kafka(self) -> Any: ...
    @property
    def bowstring(self) -> Any: ...


class Deliberate(NamedTuple):
    """Patterns (as of fnmatch) for the conversation and the field, and why the answers differ there.

    With `values`, only that pair of Kafka's value and Bowstring's is meant.
    """

    where: str
    path: str
    reason: str
    values: tuple[Any, Any] | None = None

    def covers(self, found: _Found) -> bool:
        """Whether this row explains a difference."""
        if self.values is not None and self.values != (found.kafka, found.bowstring):
            return False
        return fnmatchcase(found.where, self.where) and fnmatchcase(found.path, self.path)


_BROKER_CONFIGS = "test_configs::test_d*"
_BROKER_CONFIG_REASONS: Final = {
    "Bowstring has configs of its own, and of Confluent's brokers": ("*bowstring.*", "*confluent.*"),
    "listeners and directories are each broker's own": (
        "*.configs.listeners.*",
        "*.configs.advertised.listeners.*",
        "*.configs.log.dir.*",
        "*.configs.log.dirs.*",
        "*.configs.controller.quorum.voters.*",
    ),
    "listeners do not change while the broker runs": ("*.configs.listener.security.protocol.map.read_only",),
    "configs of a listener have the documentation and the mode of those that they are named after": (
        "*.configs.listener.name.*.read_only",
        "listener.name.*",
    ),
    "JMX is Java's; metrics are Prometheus's": ("*.configs.metric.reporters.*",),
    "a node has an id and roles without being told": (
        "*.configs.node.id.synonyms.1",
        "*.configs.process.roles.synonyms.1",
        "*.configs.controller.listener.names.synonyms.1",
    ),
}
_API_VERSIONS = "test_cluster::test_api_versions*"

_TAKEN: Final = "test_batches_that_only_one_takes"
_PRODUCE: Final[tuple[tuple[str, str, str, tuple[Any, Any] | None], ...]] = (
    (
        _TAKEN,
        "responses.*",
        "stricter: bytes behind a batch, gaps between records and LogAppendTime set by a producer are refused, and"
        " what cannot be decompressed is told so where Kafka says UNKNOWN_SERVER_ERROR. Laxer: compressed batches"
        " are kept as they come, so a wrong number of records inside is not seen",
        None,
    ),
    (
        "test_partitions_named_twice_or_not_at_all",
        "responses.*",
        "Kafka drops all but the last of the batches for one partition without a word; here each is written",
        None,
    ),
    (
        "",
        "*.log_start_offset",
        "told also with data that is not one batch, where Kafka has not found the log yet",
        (-1, 0),
    ),
)
_FETCH: Final = (
    (
        "test_sizes",
        "*.records.*",
        "whole batches only: Kafka fills the size with a part of the next one, which consumers throw away",
    ),
    ("test_negative_sizes", "*", "Kafka trips over a size below zero; here it is one of zero"),
    ("test_unknown_isolation_levels", "*", "Kafka trips over it; here it reads like read_uncommitted"),
    (
        "test_zstd_topics",
        "*",
        "KIP-110: clients too old for zstd hear UNSUPPORTED_COMPRESSION_TYPE; Kafka sends them what they cannot read",
    ),
    ("test_deleted_topics", "*.error_code", "an id stays unknown in a session too: UNKNOWN_TOPIC_ID"),
)
_CLOSED: Final = "(closed the connection)"
_ANSWERED_CLOSED: Final = ("answered", _CLOSED)
_DENIED: Final[tuple[tuple[str, str, str, tuple[Any, Any] | None], ...]] = (
    (
        "test_every_api",
        "protocol_name",
        "a refused member gets the empty name of a protocol, as those of old versions",
        (None, ""),
    ),
    (
        "test_listings_that_are_refused",
        "topics.0",
        "a refused list of reassignments has the error only; Kafka repeats the topics",
        None,
    ),
    (
        "test_listings_that_are_refused",
        "results.0",
        "a refused list of users has the error only; Kafka adds users without a name",
        None,
    ),
)
_SASL: Final[tuple[tuple[str, str, str, tuple[Any, Any] | None], ...]] = (
    (
        "test_every_api_after_the_handshake",
        "",
        "before the log-in no request is read but those of authentication: the connection ends without an answer",
        _ANSWERED_CLOSED,
    ),
    (
        "test_versions_at_other_times",
        "error_code",
        "ApiVersions is answered at any time of the log-in; Kafka answers it once, before the handshake",
        (34, 0),
    ),
    (
        "test_versions_at_other_times",
        "",
        "ApiVersions is answered at any time of the log-in; Kafka answers it once, before the handshake",
        (_CLOSED, {"error_code": 0}),
    ),
    (
        "test_unknown_scram_users",
        "*",
        "an unknown user gets a challenge as any other, and fails with the proof: nobody learns which users exist",
        None,
    ),
    (
        "test_a_proof_of_the_other_mechanism",
        "",
        "Kafka trips over a proof of another length; SASL_AUTHENTICATION_FAILED says what is wrong",
        None,
    ),
    (
        "test_scram_messages_that_only_one_takes",
        "*",
        "as RFC 5802 has it, the last message repeats the header of the first, and extensions of both are signed as"
        " they come; Kafka looks at neither",
        None,
    ),
)

DELIBERATE: Final[tuple[Deliberate, ...]] = (
    *(
        Deliberate(
            "*", "*error_message", "an error is told in words where Kafka has none", (nothing, "<words>")
        )
        for nothing in (None, "")
    ),
    Deliberate(
        _API_VERSIONS,
        "*_features.eligible.leader.replicas.version",
        "a node that is started without formatting begins without: it has no other replicas to elect",
    ),
    Deliberate(
        "test_configs::test_d*",
        "*allow.everyone.if.no.acl.found*",
        "Kafka's table of configs lacks those of its authorizer, so it hides the value",
    ),
    Deliberate(
        "test_*",
        "*.configs.min.insync.replicas*",
        "formatting Kafka with eligible leader replicas (KIP-966) sets it as the cluster's default",
    ),
    Deliberate(
        "test_topics::test_create_topics_that_collide_with_each_other*",
        "topics.*",
        "Kafka looks for collisions only among topics that are there, and so makes two that its metrics confuse",
    ),
    *(
        Deliberate(_BROKER_CONFIGS, path, reason)
        for reason, paths in _BROKER_CONFIG_REASONS.items()
        for path in paths
    ),
    Deliberate(
        "test_acls::test_rules_that_are_refused*",
        "results.0.error_code",
        "Kafka trips over ANY and MATCH, which only filters may have; INVALID_REQUEST says what is wrong",
        (-1, 42),
    ),
    *(
        Deliberate(
            "test_share_fetch::test_malformed*",
            path,
            "Kafka's broker trips over an id that it cannot name for its authorizer, and ends the session",
            values,
        )
        for path, values in (("error_code", (-1, 0)), ("responses.AAECAwQFBgcICQoLDA0ODw", None))
    ),
    Deliberate(
        "test_configs::test_incremental_alter_topic*",
        "responses.0.error_code",
        "Kafka trips over an operation it does not know; INVALID_REQUEST says what is wrong",
        (-1, 42),
    ),
    Deliberate(
        "test_configs::test_unknown_broker_configs*",
        "responses.0.*",
        "Kafka keeps configs that nothing knows, for plug-ins; here unknown names are refused",
    ),
    Deliberate(
        "test_configs::test_configs_of_*",
        "responses.0.error_code",
        "Kafka trips over an operation it does not know; INVALID_REQUEST says what is wrong",
        (-1, 42),
    ),
    Deliberate(
        "test_offsets::test_list_offsets_with_an_unknown_isolation_level*",
        "topics.0.partitions.0.*",
        "Kafka trips over an isolation level it does not know; here it reads like read_uncommitted",
    ),
    Deliberate(
        "test_group_changes::test_a_static_member_restarts*",
        "groups.0.members.*.member_assignment",
        "cooperative members go on with the last assignment while a rebalance begins anew, so it is kept",
    ),
    Deliberate(
        "test_share_*",
        "heartbeat_interval_ms",
        "a member that waits for its first assignment is told to ask again soon, not after five seconds",
        (5000, 200),
    ),
    Deliberate(
        "test_transactions::test_produce*",
        "*.log_start_offset",
        "told also with batches that the coordinator refuses, where Kafka has not looked at the log yet",
        (-1, 0),
    ),
    Deliberate(
        "test_cluster::test_metadata_without_name_or_id*",
        "*",
        "Kafka fails with a NullPointerException and says UNKNOWN_SERVER_ERROR; INVALID_TOPIC_EXCEPTION tells why",
    ),
    Deliberate(
        "test_cluster::test_describe_topic_partitions_of_invalid_names*",
        "topics.*",
        "Kafka fails as a whole with UNKNOWN_SERVER_ERROR; each topic's INVALID_TOPIC_EXCEPTION tells why",
    ),
    *(
        Deliberate(f"test_produce::{where}*", path, reason, values)
        for where, path, reason, values in _PRODUCE
    ),
    *(Deliberate(f"test_denials::{where}*", path, reason, values) for where, path, reason, values in _DENIED),
    *(Deliberate(f"test_sasl::{where}*", path, reason, values) for where, path, reason, values in _SASL),
    *(Deliberate(f"test_fetch*::{where}*", path, reason) for where, path, reason in _FETCH),
    Deliberate(
        "test_frames::test_headers*", "", "a negative length other than null's is malformed", _ANSWERED_CLOSED
    ),
)
