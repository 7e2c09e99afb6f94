"""Every request that brokers forward can be refused as a whole, in every version, for each thing that it names."""

import asyncio
from typing import Any

import pytest

from bowstring.engine.api import forwarded
from bowstring.engine.api.request_refusals import refusal
from bowstring.engine.api.table import TABLE
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.requests.request import Request
from bowstring.engine.requests.time_slices import TimeSlices
from bowstring.protocol import API_VERSIONS, decode_response, encode_response
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages import alter_client_quotas as acq
from bowstring.protocol.messages import alter_configs as ac
from bowstring.protocol.messages import alter_partition_reassignments as apr
from bowstring.protocol.messages import alter_user_scram_credentials as aus
from bowstring.protocol.messages import create_acls as ca
from bowstring.protocol.messages import create_partitions as cp
from bowstring.protocol.messages import create_topics as ct
from bowstring.protocol.messages import delete_acls as da
from bowstring.protocol.messages import delete_topics as dt
from bowstring.protocol.messages import elect_leaders as el
from bowstring.protocol.messages import incremental_alter_configs as iac
from tests.support.fake_authorizer import ALLOWS_ALL

BUSY = KafkaError(Errors.REQUEST_TIMED_OUT, "The controller was busy.")
VERSIONS = [
    (key, version)
    for key in sorted(key for key, row in TABLE.items() if row.forwarded)
    for version in range(API_VERSIONS[key].lowest, API_VERSIONS[key].highest + 1)
]


def body_of(key: int, version: int):
    """A request that names two things, where it names any."""
    if key == 19:
        return ct.CreateTopicsRequest(
            topics=[ct.CreatableTopic(name=name, num_partitions=1) for name in "ab"]
        )
    if key == 20 and version >= 6:
        return dt.DeleteTopicsRequest(topics=[dt.DeleteTopicState(name=name) for name in "ab"])
    if key == 20:
        return dt.DeleteTopicsRequest(topic_names=["a", "b"])
    if key == 30:
        return ca.CreateAclsRequest(creations=[ca.AclCreation(), ca.AclCreation()])
    if key == 31:
        return da.DeleteAclsRequest(filters=[da.DeleteAclsFilter(), da.DeleteAclsFilter()])
    if key == 33:
        return ac.AlterConfigsRequest(
            resources=[ac.AlterConfigsResource(resource_type=2, resource_name=name) for name in "ab"]
        )
    if key == 37:
        return cp.CreatePartitionsRequest(
            topics=[cp.CreatePartitionsTopic(name=name, count=2) for name in "ab"]
        )
    if key == 43:
        return el.ElectLeadersRequest(topic_partitions=[el.TopicPartitions(topic="a", partitions=[0])])
    if key == 44:
        return iac.IncrementalAlterConfigsRequest(
            resources=[iac.AlterConfigsResource(resource_type=2, resource_name=name) for name in "ab"]
        )
    if key == 45:
        partitions = [apr.ReassignablePartition(partition_index=3)]
        return apr.AlterPartitionReassignmentsRequest(
            topics=[apr.ReassignableTopic(name="a", partitions=partitions)]
        )
    if key == 49:
        return acq.AlterClientQuotasRequest(
            entries=[
                acq.AlterClientQuotasRequestEntryData(
                    entity=[acq.EntityData(entity_type="user", entity_name=name)]
                )
                for name in "ab"
            ]
        )
    if key == 51:
        return aus.AlterUserScramCredentialsRequest(
            deletions=[aus.ScramCredentialDeletion(name="a")],
            upsertions=[aus.ScramCredentialUpsertion(name="b")],
        )
    return API_VERSIONS[key].request()


def errors_of(answer) -> list[int]:
    if isinstance(answer, el.ElectLeadersResponse):
        return [answer.replica_election_results[0].partition_result[0].error_code]
    if isinstance(answer, apr.AlterPartitionReassignmentsResponse):
        (topic,) = answer.responses
        assert topic.name == "a" and topic.partitions[0].partition_index == 3
        return [answer.error_code]
    for name in ("topics", "responses", "results", "filter_results", "entries"):
        found = getattr(answer, name, None)
        if found:
            return [each.error_code for each in found]
    return [answer.error_code]


@pytest.mark.parametrize(("key", "version"), VERSIONS)
def test_the_answer_has_the_error_for_each_part(key: int, version: int):
    class Busy:
        image = ClusterImage()

        async def ask_leader(self, *_):
            raise BUSY

    class Changes:
        async def carried_out(self):
            pass

    body = body_of(key, version)
    request = Request(api_key=key, version=version, body=body, listener=None, peer="127.0.0.1:1")  # type: ignore[arg-type]
    parts: Any = {
        "node_id": 1,
        "configs": BrokerConfigs({}),
        "quorum": Busy(),
        "tls": None,
        "changes": Changes(),
        "time_slices": TimeSlices(),
        "authorizer": ALLOWS_ALL,
    }
    handling = forwarded.handle(request, **parts)
    for answer in (refusal(key, version, body, BUSY), asyncio.run(handling)):
        assert answer is not None
        _, decoded = decode_response(key, version, bytes(encode_response(key, version, 1, answer)))
        expected = 2 if key in (19, 20, 30, 31, 33, 37, 44, 49, 51) else 1
        assert errors_of(decoded) == [Errors.REQUEST_TIMED_OUT.code] * expected
