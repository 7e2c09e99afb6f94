"""Says how the partition log is set that holds the metadata."""

from typing import Final

from bowstring.engine.configs import BrokerConfigs

# Kafka's own limit for a batch of the metadata log.
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024


def metadata_log_config(configs: BrokerConfigs) -> dict[str, int]:
    """Returns the settings of the partition log that holds the metadata."""
    config = dict(configs.log_config({}))
    config.update(
        segment_bytes=configs.value("metadata.log.segment.bytes"),
        segment_ms=configs.value("metadata.log.segment.ms"),
        max_message_bytes=MAX_BATCH_BYTES,
        retention_ms=-1,
        retention_bytes=-1,
        delete_enabled=0,
        compacted=0,
        log_append_time=0,
        compression=-1,
        schemas=0,
        # Nothing reads removed segments while the broker runs, so delete them at once.
        file_delete_delay_ms=0,
    )
    return config
