"""Producers assembled from their parts: a test may look at the sender, or give it a cluster of its own."""

from bowstring._native.client.accumulator import Accumulator
from bowstring.clients.net.client import NetworkClient
from bowstring.clients.net.metadata import ClusterMetadata, parse_bootstrap
from bowstring.clients.producer.batches import ProduceBatch
from bowstring.clients.producer.config import producer_settings
from bowstring.clients.producer.producer import Producer
from bowstring.clients.producer.sender import Sender
from bowstring.clients.records import TopicPartition
from tests.support.offline_producer import DEFAULTS


def sender_for(broker, cluster_type=ClusterMetadata, **options):
    """A sender to `broker` that has not begun; `Producer.over` begins it."""
    settings = producer_settings(**{**DEFAULTS, **options})
    client = NetworkClient("test", request_timeout_ms=int(settings.request_timeout_s * 1000))
    cluster = cluster_type(client, parse_bootstrap(broker.bootstrap))
    return Sender(client, cluster, settings, Accumulator(TopicPartition, ProduceBatch, settings))


def connections(sender):
    """The connections to brokers that requests go out on."""
    found = [sender.client.ready_connection(node) for node in sender.cluster.brokers.values()]
    return [connection for connection in found if connection is not None]


def assembled(broker, cluster_type=ClusterMetadata, **options):
    """A producer and its sender."""
    sender = sender_for(broker, cluster_type, **options)
    return Producer.over(sender), sender
