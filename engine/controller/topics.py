"""Creates topics for the cluster itself, such as __consumer_offsets, spread over its brokers."""

from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.topic_changes import NewTopic, create_topic


def create(state: ControllerState, topic: NewTopic) -> Decision[bytes]:
    """Creates a topic; the answer is its id.

    Raises:
        KafkaError: With the error that CreateTopics answers.
    """
    topic_id = state.new_uuid()
    records = create_topic(state.image, state.configs, topic, topic_id, state.random)
    return Decision(records, topic_id)
