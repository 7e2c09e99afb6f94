"""Producers without a broker, whose batches tests inspect."""

import inspect

from bowstring._native.client.accumulator import Accumulator
from bowstring._native.client.record_sender import RecordSender
from bowstring._native.record.decode import decode_records
from bowstring.clients.producer.arrow import send_arrow
from bowstring.clients.producer.batches import ProduceBatch
from bowstring.clients.producer.config import producer_settings
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import Record, TopicPartition

DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Producer.__init__).parameters.items()
    if name in inspect.signature(producer_settings).parameters
}
ROLES = {name: name for name in ("key", "value", "timestamp", "partition", "headers")}


class OfflineProducer(RecordSender):
    """The record path of a producer whose topic `t` has `partitions` partitions; `available` have a leader."""

    delivery_timeout_s = 60.0

    def __init__(self, partitions=1, available=None, **options):
        settings = producer_settings(**{**DEFAULTS, **options})
        self.accumulator = Accumulator(TopicPartition, ProduceBatch, settings)
        self.settings = settings
        self.accumulator.route("t", 0, partitions, available or list(range(partitions)))

    payload = Producer.payload
    _header_pairs = Producer._header_pairs
    _no_partition = Producer._no_partition
    _timestamp_ms = Producer._timestamp_ms
    _partition_number = Producer._partition_number
    _topic_name = Producer._topic_name

    def find_topic(self, topic):
        assert topic == "t"

    def send_arrow(self, data, **roles):
        return send_arrow(self, self.find_topic, "t", data, {**ROLES, **roles})

    def batches(self, producer=(7, 0), sequence=0):
        """Returns the sealed bytes of the waiting batches, by partition."""
        found = {}
        for partition, queue in sorted(self.accumulator.queues.items()):
            for batch in queue.waiting:
                batch.seal(producer, sequence, self.settings.compression, self.settings.compression_level)
                found.setdefault(partition.partition, []).append(bytes(batch.wire()))
        return found

    def records(self):
        """Returns the waiting records by partition."""
        return {
            partition: [
                record for batch in sealed for record in decode_records(Record, "t", partition, batch)
            ]
            for partition, sealed in self.batches().items()
        }
