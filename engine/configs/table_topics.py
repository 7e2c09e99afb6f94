"""Lists the topic configs, each with the broker configs that set its default: one row adds all of them."""

from typing import Final

from bowstring.engine.configs.config_key import (
    BOOLEAN,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    READ_ONLY,
    STORED,
    STRING,
    ConfigKey,
    broker_config,
    own_config,
    topic_config,
)

HOUR_MS: Final = 3_600_000
MINUTE_MS: Final = 60_000

# Also by the names of Confluent's Java classes.
_STRATEGIES: Final = "|".join(
    f"{package}{each}"
    for package in ("", "io.confluent.kafka.serializers.subject.")
    for each in ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
)

# topic_config(name, type, default, valid values, doc, broker configs in order of precedence)
# A broker config has the type, default and valid values of its topic config unless it says otherwise.
_ROWS: Final = (
    topic_config(
        "bowstring.durability",
        STRING,
        "os",
        "os|commit",
        "When a produced batch is acknowledged: `commit` once it is on the medium, `os` once it is in "
        "the page cache. Kafka does not have this config.",
        broker_config(
            "bowstring.durability",
            importance=HIGH,
            update_mode=READ_ONLY,
            doc=(
                "When a produced batch is acknowledged: `commit` once it is on the medium, in a write-ahead "
                "log shared by the partitions of a log directory; `os` once it is in the page cache, as in "
                "Kafka. `bowstring serve` uses commit by default, an embedded broker os; topics may override "
                "either."
            ),
        ),
        importance=HIGH,
    ),
    topic_config(
        "cleanup.policy",
        LIST,
        "delete",
        "compact|delete",
        "What happens to old segments: `delete` deletes them by age and size, `compact` keeps the "
        "newest record of each key, both together do both, an empty list keeps everything.",
        broker_config("log.cleanup.policy"),
    ),
    topic_config(
        "compression.gzip.level",
        INT,
        "-1",
        "-1 or 1..9",
        "Compression level when the broker compresses with gzip; -1 is zlib's default.",
        broker_config("compression.gzip.level"),
    ),
    topic_config(
        "compression.lz4.level",
        INT,
        "9",
        "1..17",
        "Compression level when the broker compresses with lz4.",
        broker_config("compression.lz4.level"),
    ),
    topic_config(
        "compression.type",
        STRING,
        "producer",
        "uncompressed|zstd|lz4|snappy|gzip|producer",
        "Codec of stored batches. `producer` keeps the producer's codec; any other value recompresses "
        "batches that differ.",
        broker_config("compression.type", importance=HIGH),
    ),
    topic_config(
        "compression.zstd.level",
        INT,
        "3",
        "-131072..22",
        "Compression level when the broker compresses with zstd.",
        broker_config("compression.zstd.level"),
    ),
    topic_config(
        "confluent.key.schema.validation",
        BOOLEAN,
        "false",
        "",
        "Refuses records whose key has no schema, or one that is not registered under the topic's subject "
        "for keys, in the registry at confluent.schema.registry.url; null is accepted. Confluent's brokers "
        "have it.",
    ),
    topic_config(
        "confluent.key.subject.name.strategy",
        STRING,
        "TopicNameStrategy",
        _STRATEGIES,
        "Which subject that is: the topic's name and -key, the name of the schema's record, or both.",
    ),
    topic_config(
        "confluent.value.schema.validation",
        BOOLEAN,
        "false",
        "",
        "Refuses records whose value has no schema, or one that is not registered under the topic's subject "
        "for values, in the registry at confluent.schema.registry.url; null is accepted. Confluent's brokers "
        "have it.",
    ),
    topic_config(
        "confluent.value.subject.name.strategy",
        STRING,
        "TopicNameStrategy",
        _STRATEGIES,
        "Which subject that is: the topic's name and -value, the name of the schema's record, or both.",
    ),
    topic_config(
        "delete.retention.ms",
        LONG,
        "86400000",
        "0..",
        "How long tombstones and transaction markers are kept after compaction, so that a reader that "
        "starts at the beginning sees them.",
        broker_config("log.cleaner.delete.retention.ms"),
    ),
    topic_config(
        "errors.deadletterqueue.group.enable",
        BOOLEAN,
        "false",
        "",
        "Whether share groups may write records that they cannot process to the topic (KIP-1191).",
    ),
    topic_config(
        "file.delete.delay.ms",
        LONG,
        "60000",
        "0..",
        "How long a removed segment or partition stays on disk under another name before it is unlinked.",
        broker_config(
            "log.segment.delete.delay.ms",
            importance=HIGH,
            doc="Default file.delete.delay.ms of topics, and the delay for a deleted topic's directory.",
        ),
    ),
    topic_config(
        "flush.messages",
        LONG,
        "9223372036854775807",
        "1..",
        "Records that a partition may append between forced fsyncs; 1 syncs every append.",
        broker_config("log.flush.interval.messages", importance=HIGH),
    ),
    topic_config(
        "flush.ms",
        LONG,
        "9223372036854775807",
        "0..",
        "Longest time an appended record may wait for an fsync.",
        broker_config(
            "log.flush.interval.ms",
            importance=HIGH,
            default=None,
            valid="",
            doc="Default flush.ms of topics; log.flush.scheduler.interval.ms when unset.",
        ),
        own_config("log.flush.scheduler.interval.ms"),
    ),
    topic_config(
        "follower.replication.throttled.replicas",
        LIST,
        "",
        "replicas",
        "Replicas whose follower side is throttled, as partition:broker pairs, or `*` for all.",
    ),
    topic_config(
        "index.interval.bytes",
        INT,
        "4096",
        "0..",
        "Log bytes between two entries of the offset index.",
        broker_config("log.index.interval.bytes"),
    ),
    topic_config(
        "internal.segment.bytes",
        INT,
        None,
        "",
        "Segment size for tests, without segment.bytes' lower bound.",
        internal=True,
    ),
    topic_config(
        "leader.replication.throttled.replicas",
        LIST,
        "",
        "replicas",
        "Replicas whose leader side is throttled, as partition:broker pairs, or `*` for all.",
    ),
    topic_config(
        "local.retention.bytes",
        LONG,
        "-2",
        "-2..",
        "Bytes kept locally once segments are in remote storage; -2 takes retention.bytes.",
        broker_config("log.local.retention.bytes"),
        effect=STORED,
    ),
    topic_config(
        "local.retention.ms",
        LONG,
        "-2",
        "-2..",
        "Time segments are kept locally once they are in remote storage; -2 takes retention.ms.",
        broker_config("log.local.retention.ms"),
        effect=STORED,
    ),
    topic_config(
        "max.compaction.lag.ms",
        LONG,
        "9223372036854775807",
        "1..",
        "Longest time that a record may stay uncompacted.",
        broker_config("log.cleaner.max.compaction.lag.ms"),
    ),
    topic_config(
        "max.decompressed.message.bytes",
        INT,
        "2147483639",
        "1..2147483639",
        "Largest record of a compressed batch, in bytes after decompression: in produced batches, in the "
        "cleaner and in lookups by timestamp. When it is lowered below records that are stored, their "
        "partitions are not cleaned and not searched by timestamp until it is raised.",
        broker_config("max.decompressed.message.bytes"),
    ),
    topic_config(
        "max.message.bytes",
        INT,
        "1048588",
        "0..",
        "Largest record batch that the topic accepts, in bytes after compression.",
        broker_config("message.max.bytes", importance=HIGH),
    ),
    topic_config(
        "message.timestamp.after.max.ms",
        LONG,
        "3600000",
        "0..",
        "How far a record's timestamp may lie ahead of the broker's clock (CreateTime only).",
        broker_config("log.message.timestamp.after.max.ms"),
    ),
    topic_config(
        "message.timestamp.before.max.ms",
        LONG,
        "9223372036854775807",
        "0..",
        "How far a record's timestamp may lie behind the broker's clock (CreateTime only).",
        broker_config("log.message.timestamp.before.max.ms"),
    ),
    topic_config(
        "message.timestamp.type",
        STRING,
        "CreateTime",
        "CreateTime|LogAppendTime",
        "Whether a record keeps the producer's timestamp or gets the time of the append.",
        broker_config("log.message.timestamp.type"),
    ),
    topic_config(
        "min.cleanable.dirty.ratio",
        DOUBLE,
        "0.5",
        "0..1",
        "Share of a log that must be uncompacted before it is compacted.",
        broker_config("log.cleaner.min.cleanable.ratio"),
    ),
    topic_config(
        "min.compaction.lag.ms",
        LONG,
        "0",
        "0..",
        "Shortest time a record stays uncompacted.",
        broker_config("log.cleaner.min.compaction.lag.ms"),
    ),
    topic_config(
        "min.insync.replicas",
        INT,
        "1",
        "1..",
        "In-sync replicas that an acks=all produce needs, at most as many as there are replicas; with "
        "fewer it is refused with NOT_ENOUGH_REPLICAS.",
        broker_config("min.insync.replicas", importance=HIGH),
    ),
    topic_config(
        "preallocate",
        BOOLEAN,
        "false",
        "",
        "Reserve a segment's space on disk when it is created.",
        broker_config("log.preallocate"),
        effect=STORED,
    ),
    topic_config(
        "remote.copy.lag.bytes",
        LONG,
        "-1",
        "-1..",
        "Bytes that follow a segment before it is copied to remote storage; -1 takes local.retention.bytes.",
        broker_config("log.remote.copy.lag.bytes"),
        effect=STORED,
    ),
    topic_config(
        "remote.copy.lag.ms",
        LONG,
        "0",
        "-1..",
        "Age of a segment before it is copied to remote storage; 0 copies at once, -1 as local.retention.ms.",
        broker_config("log.remote.copy.lag.ms"),
        effect=STORED,
    ),
    topic_config(
        "remote.log.copy.disable",
        BOOLEAN,
        "false",
        "",
        "Stop copying segments to remote storage; copied segments stay readable.",
        effect=STORED,
    ),
    topic_config(
        "remote.log.delete.on.disable",
        BOOLEAN,
        "false",
        "",
        "Delete remote segments when remote storage is switched off for the topic.",
        effect=STORED,
    ),
    topic_config(
        "remote.storage.enable",
        BOOLEAN,
        "false",
        "",
        "Keep old segments in remote storage.",
        effect=STORED,
    ),
    topic_config(
        "retention.bytes",
        LONG,
        "-1",
        "",
        "Bytes kept per partition before the oldest segments are deleted; -1 for no limit.",
        broker_config("log.retention.bytes", importance=HIGH),
    ),
    topic_config(
        "retention.ms",
        LONG,
        "604800000",
        "-1..",
        "Age at which segments are deleted; -1 for no limit.",
        broker_config(
            "log.retention.ms",
            importance=HIGH,
            default=None,
            valid="",
            doc="Default retention.ms of topics; -1 for no limit.",
        ),
        broker_config(
            "log.retention.minutes",
            factor=MINUTE_MS,
            importance=HIGH,
            type=INT,
            default=None,
            valid="",
            update_mode=READ_ONLY,
            doc="Default retention.ms of topics, in minutes, when ms is not set.",
        ),
        broker_config(
            "log.retention.hours",
            factor=HOUR_MS,
            importance=HIGH,
            type=INT,
            default="168",
            valid="",
            update_mode=READ_ONLY,
            doc="Default retention.ms of topics, in hours, when neither minutes nor ms are set.",
        ),
    ),
    topic_config(
        "segment.bytes",
        INT,
        "1073741824",
        "1048576..",
        "Size at which a segment is closed and the next one starts.",
        broker_config("log.segment.bytes", importance=HIGH),
    ),
    topic_config(
        "segment.index.bytes",
        INT,
        "10485760",
        "4..",
        "Largest size of an offset or time index; a full index closes its segment.",
        broker_config("log.index.size.max.bytes"),
    ),
    topic_config(
        "segment.jitter.ms",
        LONG,
        "0",
        "0..",
        "Random time subtracted from segment.ms, so that partitions do not roll at the same moment.",
        broker_config("log.roll.jitter.ms", importance=HIGH, default=None, valid=""),
        broker_config(
            "log.roll.jitter.hours",
            factor=HOUR_MS,
            importance=HIGH,
            type=INT,
            update_mode=READ_ONLY,
            doc="Default segment.jitter.ms of topics, in hours, when ms is not set.",
        ),
    ),
    topic_config(
        "segment.ms",
        LONG,
        "604800000",
        "1..",
        "Age at which a segment is closed even when it is not full.",
        broker_config("log.roll.ms", importance=HIGH, default=None, valid=""),
        broker_config(
            "log.roll.hours",
            factor=HOUR_MS,
            importance=HIGH,
            type=INT,
            default="168",
            update_mode=READ_ONLY,
            doc="Default segment.ms of topics, in hours, when ms is not set.",
        ),
    ),
    topic_config(
        "unclean.leader.election.enable",
        BOOLEAN,
        "false",
        "",
        "Whether a replica outside the in-sync set may lead; records that it lacks are lost.",
        broker_config("unclean.leader.election.enable", importance=HIGH),
        effect=STORED,
    ),
)

TOPICS: Final[dict[str, ConfigKey]] = {row.name: row for row in _ROWS}
TOPIC_DEFAULTS: Final[dict[str, ConfigKey]] = {key.name: key for row in _ROWS for key in row.broker_configs()}
