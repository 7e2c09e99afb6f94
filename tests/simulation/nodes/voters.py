"""Random requests about the quorum: its state, its voters, and registrations of brokers and controllers."""

from bowstring.protocol.messages import (
    add_raft_voter,
    describe_quorum,
    remove_raft_voter,
    unregister_broker,
    unregister_controller,
)
from tests.simulation.nodes.node import CLUSTER_ID, CONTROLLER_PORT, directory_id

METADATA_TOPIC = "__cluster_metadata"
NOBODY = 9


def describe_the_quorum(client):
    part = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[part])
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def a_voter(client):
    """A node that is a voter or may become one; now and then one that does not exist, or with another directory."""
    random = client.random
    id = random.choice([*client.world.nodes, *client.world.nodes, NOBODY])
    return id, directory_id(id if random.random() < 0.9 else NOBODY)


def add_a_voter(client):
    id, directory = a_voter(client)
    random = client.random
    return add_raft_voter.AddRaftVoterRequest(
        cluster_id=random.choice([None, CLUSTER_ID, CLUSTER_ID, "another cluster"]),
        timeout_ms=random.choice([100, 1000]),
        voter_id=id,
        voter_directory_id=directory,
        listeners=[add_raft_voter.Listener(name="CONTROLLER", host=f"127.0.0.{id}", port=CONTROLLER_PORT)],
        ack_when_committed=random.random() < 0.7,
    )


def remove_a_voter(client):
    id, directory = a_voter(client)
    cluster = client.random.choice([None, CLUSTER_ID, CLUSTER_ID, "another cluster"])
    return remove_raft_voter.RemoveRaftVoterRequest(
        cluster_id=cluster, voter_id=id, voter_directory_id=directory
    )


def unregister_a_broker(client):
    """One that was never there: a broker that runs stays without a registration until it is started again, as in Kafka,
    and one that is down may run by the time that the request arrives."""
    return unregister_broker.UnregisterBrokerRequest(broker_id=NOBODY)


def unregister_a_controller(client):
    down = [each.id for each in client.world.nodes.values() if each.broker is None]
    id = client.random.choice([*down, *down, NOBODY])
    return unregister_controller.UnregisterControllerRequest(controller_id=id)


VOTERS = [
    (1, describe_the_quorum),
    (3, add_a_voter),
    (2, remove_a_voter),
    (1, unregister_a_broker),
    (1, unregister_a_controller),
]
