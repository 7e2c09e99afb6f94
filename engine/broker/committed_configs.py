"""Carries out the configs that the image has: those of this broker, and those of topics."""

from collections.abc import Iterable

from bowstring.engine import event_log
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    TOPIC_RESOURCE,
    ClusterImage,
)
from bowstring.engine.storage.log_manager import LogManager
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord


class CommittedConfigs:
    """Has the configs of the image in force on this broker."""

    def __init__(self, configs: BrokerConfigs, logs: LogManager, node_id: int) -> None:
        self._configs = configs
        self._logs = logs
        self._node_id = node_id

    def load(self, image: ClusterImage) -> None:
        """Applies the broker configs of the image."""
        own = image.resource_configs(BROKER_RESOURCE, str(self._node_id))
        self._configs.set_dynamic(own, image.resource_configs(BROKER_RESOURCE, ""))

    async def carry_out(self, image: ClusterImage, records: Iterable[ConfigRecord]) -> None:
        """Carries out changes of configs that the image has."""
        records = list(records)
        if any(record.resource_type == BROKER_RESOURCE for record in records):
            self.load(image)
            await self._logs.configure_all(image)
        for record in records:
            if record.resource_type == CLIENT_METRICS_RESOURCE and record.value is not None:
                event_log.warning(
                    "a config is stored and reported, but has no effect yet; remove it to silence this "
                    "warning",
                    config=record.name,
                    of=f"client metrics subscription {record.resource_name}",
                )
        for name in {record.resource_name for record in records if record.resource_type == TOPIC_RESOURCE}:
            if name in image.topics:  # else deleted since
                await self._logs.configure(name, image)
