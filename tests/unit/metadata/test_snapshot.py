"""Snapshots of the metadata log: everything an image holds comes back; parts of a snapshot are not taken for one."""

import pytest

from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.quorum import QuorumFacts
from bowstring.engine.metadata.snapshot import (
    BOOTSTRAP_ID,
    SnapshotError,
    SnapshotId,
    decode_bootstrap,
    decode_snapshot,
    encode_snapshot,
    image_records,
)
from bowstring.protocol.features import METADATA_VERSION
from bowstring.protocol.records.cluster_metadata import nodes, security, settings, topics
from bowstring.protocol.records.control import Endpoint, KRaftVersionFeature, VotersRecord, VotersRecordVoter

ID = bytes(range(16))
AT = SnapshotId(100, 3)
DIRECTORY = b"d" * 16
EVERYTHING = [
    settings.FeatureLevelRecord(name=METADATA_VERSION, feature_level=33),
    settings.FeatureLevelRecord(name="group.version", feature_level=1),
    nodes.RegisterBrokerRecord(
        broker_id=1,
        incarnation_id=b"i" * 16,
        broker_epoch=7,
        end_points=[nodes.BrokerEndpoint(name="PLAINTEXT", host="h", port=9092, security_protocol=0)],
        features=[
            nodes.BrokerFeature(name="group.version", min_supported_version=0, max_supported_version=1)
        ],
        rack="r",
        fenced=True,
        in_controlled_shutdown=True,
        log_dirs=[DIRECTORY],
        cordoned_log_dirs=[DIRECTORY],
    ),
    nodes.RegisterControllerRecord(controller_id=1, incarnation_id=b"c" * 16),
    topics.TopicRecord(name="t", topic_id=ID),
    topics.PartitionRecord(
        partition_id=0,
        topic_id=ID,
        replicas=[1, 2],
        isr=[1],
        adding_replicas=[2],
        leader=1,
        leader_recovery_state=1,
        leader_epoch=4,
        partition_epoch=9,
        directories=[DIRECTORY, bytes(16)],
        eligible_leader_replicas=[2],
        last_known_elr=[1],
    ),
    settings.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    settings.ClientQuotaRecord(
        entity=[settings.EntityData(entity_type="user", entity_name=None)],
        key="producer_byte_rate",
        value=5.0,
    ),
    settings.ProducerIdsRecord(broker_id=-1, broker_epoch=-1, next_producer_id=2000),
    security.AccessControlEntryRecord(id=ID, resource_name="t", principal="User:a", host="*"),
    security.UserScramCredentialRecord(name="u", mechanism=1, salt=b"s", iterations=4096),
    security.DelegationTokenRecord(owner="User:a", requester="User:a", token_id="x"),
]
VOTERS = VotersRecord(
    version=0,
    voters=[
        VotersRecordVoter(
            voter_id=1,
            voter_directory_id=DIRECTORY,
            endpoints=[Endpoint(name="CONTROLLER", host="h", port=9093)],
            kraft_version_feature=KRaftVersionFeature(min_supported_version=0, max_supported_version=1),
        )
    ],
)


def written(quorum: QuorumFacts | None = None, records=EVERYTHING) -> bytes:
    image = ClusterImage()
    image.apply_all(records)
    return b"".join(encode_snapshot(image, quorum or QuorumFacts(), AT, 5, 6))


def test_the_snapshot_of_formatting_tells_only_the_quorum():
    """Its records take effect when the first leader appends them (KIP-1170)."""
    quorum = QuorumFacts()
    quorum.kraft_version, quorum.voters = 1, VOTERS
    image, found = decode_snapshot(written(quorum), BOOTSTRAP_ID)
    assert list(image_records(image)) == []
    assert found.voter_ids() == [1]


def test_everything_comes_back():
    image, quorum = decode_snapshot(written(), AT)
    assert list(image_records(image)) == EVERYTHING
    assert quorum.kraft_version == 0 and quorum.voter_ids() == []


@pytest.mark.parametrize("level", [7, 8, 17, 23, 29])
def test_an_older_cluster_is_written_in_its_own_versions(level):
    """Directories and eligible leaders are left out where records have no place for them; the rest comes back."""
    older = [settings.FeatureLevelRecord(name=METADATA_VERSION, feature_level=level), *EVERYTHING[1:]]
    image, _ = decode_snapshot(written(records=older), AT)
    partition, broker = image.topics["t"].partitions[0], image.brokers[1]
    assert partition.directories == ((DIRECTORY, bytes(16)) if level >= 17 else ())
    assert broker.directories == ((DIRECTORY,) if level >= 17 else ())
    assert partition.eligible_leaders == ((2,) if level >= 23 else ())
    assert (partition.leader_epoch, broker.cordoned, len(image.kept)) == (4, (), 1)
    assert EVERYTHING[2].cordoned_log_dirs == [DIRECTORY], "the record itself is as it was"


def test_voters_come_back():
    quorum = QuorumFacts()
    quorum.kraft_version, quorum.voters = 1, VOTERS
    _, found = decode_snapshot(written(quorum), AT)
    assert (found.kraft_version, found.voters) == (1, VOTERS)


def test_removals_leave_nothing():
    image = ClusterImage()
    image.apply_all(EVERYTHING)
    gone = settings.ClientQuotaRecord(entity=EVERYTHING[7].entity, key="producer_byte_rate", remove=True)
    image.apply_all(
        [
            gone,
            security.RemoveAccessControlEntryRecord(id=ID),
            security.RemoveUserScramCredentialRecord(name="u", mechanism=1),
            security.RemoveDelegationTokenRecord(token_id="x"),
            security.RemoveDelegationTokenRecord(token_id="never there"),
        ]
    )
    assert len(image.kept) == 1  # the controller
    assert list(image_records(image)) == [
        each for i, each in enumerate(EVERYTHING) if i not in (7, 9, 10, 11)
    ]


def test_many_records_are_many_batches():
    records = [
        settings.ConfigRecord(resource_type=2, resource_name="t", name=f"n{i}", value="v")
        for i in range(2500)
    ]
    image, _ = decode_snapshot(written(records=records), AT)
    assert list(image_records(image)) == records


def test_records_to_begin_with_are_read_as_they_are():
    assert decode_bootstrap(written(records=EVERYTHING[:2])) == EVERYTHING[:2]


def damaged(data: bytes) -> list[bytes]:
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    return [b"", data[:-1], data[:-75], data[83:], bytes(flipped), data + data]


@pytest.mark.parametrize("index", range(6))
def test_parts_and_damage_are_refused(index):
    with pytest.raises(SnapshotError):
        decode_snapshot(damaged(written())[index], AT)
