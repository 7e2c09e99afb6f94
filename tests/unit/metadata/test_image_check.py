"""The check before records are written: it finds exactly what does not apply, and changes nothing."""

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from bowstring.engine.metadata.image import ClusterImage, MetadataError
from bowstring.protocol.records.cluster_metadata import markers, nodes, settings, topics

FEW = st.integers(0, 2)
TOPIC_ID = st.sampled_from([b"a" * 16, b"b" * 16, b"c" * 16])
NAME = st.sampled_from(["a", "b", "c"])
RECORD = st.one_of(
    st.builds(topics.TopicRecord, name=NAME, topic_id=TOPIC_ID),
    st.builds(topics.RemoveTopicRecord, topic_id=TOPIC_ID),
    st.builds(topics.PartitionRecord, topic_id=TOPIC_ID, partition_id=FEW, replicas=st.just([1])),
    st.builds(topics.PartitionChangeRecord, topic_id=TOPIC_ID, partition_id=FEW),
    st.builds(topics.ClearElrRecord, topic_name=st.sampled_from(["", "a", "b"])),
    st.builds(settings.ConfigRecord, resource_type=st.just(2), resource_name=NAME, name=st.just("x")),
    st.builds(settings.ProducerIdsRecord, next_producer_id=FEW),
    st.builds(nodes.RegisterBrokerRecord, broker_id=FEW),
    st.builds(nodes.UnregisterBrokerRecord, broker_id=FEW),
    st.builds(nodes.FenceBrokerRecord, id=FEW),
    st.builds(nodes.BrokerRegistrationChangeRecord, broker_id=FEW),
    st.builds(markers.BeginTransactionRecord),
    st.builds(markers.EndTransactionRecord),
    st.builds(markers.AbortTransactionRecord),
)


def facts(image):
    """What an image has; the lists of partitions are compared, not only counted."""
    by_name = {
        topic.name: (topic.id, topic.version, list(topic.partitions)) for topic in image.topics.values()
    }
    return repr((by_name, image.brokers, image.configs, image.next_producer_id, image._transaction))


@given(st.lists(RECORD, max_size=25), st.lists(RECORD, min_size=1, max_size=8))
def test_a_check_finds_exactly_what_does_not_apply(before, records):
    image = ClusterImage()
    for record in before:
        with suppress(MetadataError):
            image.apply(record)

    def failure(call):
        try:
            call(records)
        except MetadataError as error:
            return error.record, str(error)
        return None

    whole, unchanged = image.copy(), facts(image)
    assert failure(image.check) == failure(whole.apply_all)
    assert facts(image) == unchanged
