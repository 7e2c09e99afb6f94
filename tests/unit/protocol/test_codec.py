"""The codec's refusals and their messages."""

import copy
import pickle
import random
import tracemalloc

import pytest

from bowstring._native.protocol.message_codec import decode_lazily
from bowstring.protocol import ProtocolError, decode, decode_prefix, encode
from bowstring.protocol.frames import decode_request, decode_request_header
from bowstring.protocol.headers import ResponseHeader
from bowstring.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from bowstring.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest
from bowstring.protocol.messages.fetch import FetchRequest
from bowstring.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bowstring.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.records.cluster_metadata.nodes import BrokerEndpoint, RegisterBrokerRecord
from bowstring.protocol.records.cluster_metadata.settings import ClientQuotaRecord
from tests.support.declared_messages import all_messages, name_of, versions
from tests.support.example_messages import example, request_seeds
from tests.support.reference_codec import uvarint


def refused(call, *arguments):
    with pytest.raises(ProtocolError) as caught:
        call(*arguments)
    return caught.value


def topics_with(**values):
    return MetadataResponse(
        topics=[
            MetadataResponseTopic(name="a"),
            MetadataResponseTopic(name="b", partitions=[MetadataResponsePartition(**values)]),
        ]
    )


class TestEncode:
    def test_the_error_names_message_version_path_and_byte(self):
        error = refused(encode, topics_with(leader_id=2**31), 13)
        assert (error.message, error.version) == ("MetadataResponse", 13)
        assert error.field == "topics[1].partitions[0].leader_id"
        assert error.offset == encode(topics_with(leader_id=0x7ABBCCDD), 13).index(b"\x7a\xbb\xcc\xdd")
        assert "2147483648" in str(error) and isinstance(error, ValueError)

    @pytest.mark.parametrize(
        ("values", "field"),
        [
            ({"error_code": 40000}, "error_code"),
            ({"error_code": "1"}, "error_code"),
            ({"error_code": 1.0}, "error_code"),
            ({"error_code": None}, "error_code"),
            ({"leader_id": 10**30}, "leader_id"),
            ({"replica_nodes": None}, "replica_nodes"),
            ({"replica_nodes": {1, 2}}, "replica_nodes"),
            ({"replica_nodes": [1, None]}, "replica_nodes[1]"),
            ({"replica_nodes": [1, 2, -(2**31) - 1]}, "replica_nodes[2]"),
        ],
    )
    def test_wrong_values(self, values, field):
        assert refused(encode, topics_with(**values), 13).field == f"topics[1].partitions[0].{field}"

    @pytest.mark.parametrize(("character", "kept"), [("x", 32767), ("é", 16383), ("日", 10922), ("🚀", 8191)])
    def test_an_error_message_is_cut_to_what_fits(self, character, kept):
        answer = InitializeShareGroupStateResponse(
            results=[InitializeStateResult(partitions=[PartitionResult(error_message=character * 32768)])]
        )
        read = decode(InitializeShareGroupStateResponse, 0, encode(answer, 0))
        assert read.results[0].partitions[0].error_message == character * kept

    @pytest.mark.parametrize("name", [b"bytes", 7, "\ud800", "é" * 16384, "x" * 32768])
    def test_wrong_text(self, name):
        assert (
            refused(encode, MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9).field
            == "topics[0].name"
        )

    @pytest.mark.parametrize("topic_id", [b"", bytes(15), bytes(17), "0" * 16, bytearray(16)])
    def test_wrong_id(self, topic_id):
        message = MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id)])
        assert refused(encode, message, 12).field == "topics[0].topic_id"

    def test_wrong_bytes_bool_and_float(self):
        assert refused(encode, SaslAuthenticateRequest(auth_bytes="text"), 2).field == "auth_bytes"
        assert refused(encode, MetadataRequest(topics=[], allow_auto_topic_creation=1), 9).field
        assert refused(encode, ClientQuotaRecord(value="1.5"), 0).field == "value"
        assert refused(encode, ClientQuotaRecord(value=None), 0).field == "value"

    def test_wrong_struct(self):
        message = MetadataRequest(topics=[MetadataResponseTopic(name="response")])
        assert "must be a MetadataRequestTopic" in refused(encode, message, 9).reason
        assert refused(encode, DescribeTopicPartitionsRequest(cursor="x"), 0).field == "cursor"

    def test_unsigned_bounds(self):
        endpoint = BrokerEndpoint(port=65535)
        data = encode(RegisterBrokerRecord(end_points=[endpoint]), 0)
        assert decode(RegisterBrokerRecord, 0, data).end_points[0].port == 65535
        for port in (-1, 65536):
            endpoint.port = port
            assert (
                refused(encode, RegisterBrokerRecord(end_points=[endpoint]), 0).field == "end_points[0].port"
            )

    def test_null_only_where_the_version_has_one(self):
        assert refused(encode, MetadataRequest(topics=None), 0).field == "topics"
        assert encode(MetadataRequest(topics=None), 1) == b"\xff\xff\xff\xff"
        assert refused(encode, MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)
        assert encode(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 10)

    def test_a_field_the_version_lacks_must_keep_its_default(self):
        error = refused(encode, MetadataRequest(topics=[], allow_auto_topic_creation=False), 3)
        assert "allow_auto_topic_creation" in error.reason
        assert encode(MetadataRequest(topics=[], allow_auto_topic_creation=False), 4)

    def test_an_ignorable_field_the_version_lacks_is_dropped(self):
        assert encode(MetadataResponse(throttle_time_ms=5), 2) == encode(MetadataResponse(), 2)

    def test_a_version_not_declared(self):
        assert "0 to 13" in refused(encode, MetadataRequest(), 14).reason
        assert refused(encode, MetadataRequest(), -1)

    def test_a_deleted_attribute(self):
        message = MetadataRequest(topics=[])
        del message.topics
        assert refused(encode, message, 9).field == "topics"

    def test_any_buffer_is_bytes(self):
        plain = encode(SaslAuthenticateRequest(auth_bytes=b"secret"), 2)
        for buffer in (bytearray(b"secret"), memoryview(b"secret")):
            assert encode(SaslAuthenticateRequest(auth_bytes=buffer), 2) == plain
        assert refused(encode, SaslAuthenticateRequest(auth_bytes=memoryview(b"secret")[::2]), 2)

    def test_unknown_tags_must_be_unknown(self):
        message = MetadataRequest(topics=[])
        for tags in ({-1: b""}, {2**32: b""}):
            message.unknown_tags = tags
            assert refused(encode, message, 9)
        quota = OpData(key="k")
        quota.unknown_tags = {0: "text"}
        with pytest.raises(TypeError):
            encode(example_of_quota(quota), 1)

    def test_large_tagged_field_is_moved_behind_its_size(self):
        """Sizes on either side of one, two and three bytes of varint."""
        for size in (0, 1, 125, 126, 127, 128, 129, 16381, 16382, 16383, 16384, 32767):
            message = MetadataResponse()
            fetch = decode_request_with_tag(size)
            assert fetch.cluster_id == "x" * size
            message.unknown_tags = {900: bytes(size)}
            assert decode(MetadataResponse, 13, encode(message, 13)) == message


def example_of_quota(op):
    return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(ops=[op])])


def decode_request_with_tag(size):
    return decode(FetchRequest, 18, encode(FetchRequest(cluster_id="x" * size), 18))


class TestDecode:
    def test_every_truncation_is_refused(self):
        """No message of any class is the beginning of another."""
        chance = random.Random(7)
        for declared in all_messages():
            version = versions(declared)[-1]
            data = encode(example(declared, version, chance), version)
            for end in range(len(data)):
                error = refused(decode, declared, version, data[:end])
                assert error.offset <= end

    def test_trailing_bytes_are_refused(self):
        error = refused(decode, MetadataRequest, 1, b"\xff\xff\xff\xff\x00")
        assert (error.offset, error.reason) == (4, "1 bytes follow the message")
        assert decode_prefix(MetadataRequest, 1, b"\xff\xff\xff\xff\x00") == (MetadataRequest(topics=None), 4)

    @pytest.mark.parametrize(
        ("version", "data", "reason"),
        [
            (1, "7fffffff", "2147483647 elements"),
            (1, "fffffffe", "negative length"),
            (0, "ffffffff", "is null"),
            (9, "ffffffffff", "varint"),
            (9, "ffffffff7f", "varint"),
            (9, "8080808080", "varint"),
            (9, "ffffffff0f", "elements"),
            (9, "ff", "varint"),
            (9, "02 00 00", "is null"),
            (9, "02 05 61", "has a length of 4 bytes"),
            (1, "00000001 fffe", "negative length"),
            (1, "00000001 7fff 61", "has a length of 32767 bytes"),
            (9, "00 01 00 00 ff", "truncated"),
            (9, "00 01 00 00 01 05", "truncated"),
            (9, "00 01 00 00 01 05 04 61", "has a size of 4 bytes"),
            (9, "00 01 00 00 02 05 00 05 00", "appears twice"),
        ],
    )
    def test_bad_numbers(self, version, data, reason):
        assert reason in refused(decode, MetadataRequest, version, bytes.fromhex(data)).reason

    def test_text_longer_than_kafka_allows(self):
        data = b"\x02" + b"\x81\x80\x02" + b"x" * 32768 + b"\x00\x01\x00\x00\x00"
        assert "32768 bytes" in refused(decode, MetadataRequest, 9, data).reason

    def test_text_that_could_not_be_written_again(self):
        """Each byte that is not UTF-8 becomes three: the stored or answered text would be too long."""
        head = b"\x00\x00\x00\x01"
        assert decode(MetadataRequest, 0, head + b"\x2a\xaa" + b"\xff" * 10922).topics
        for text in (b"\xff" * 10923, b"\xff" * 5000 + b"x" * 27767):
            data = head + len(text).to_bytes(2, "big") + text
            assert "not UTF-8" in refused(decode, MetadataRequest, 0, data).reason

    def test_text_that_is_not_utf8_is_read_as_java_does(self):
        request = decode(MetadataRequest, 0, b"\x00\x00\x00\x01\x00\x03a\xffb")
        assert request.topics[0].name == "a\ufffdb"

    def test_tagged_field_of_the_wrong_size(self):
        data = encode(FetchRequest(cluster_id="abc"), 18)
        good = b"\x01\x00\x04\x04abc"
        assert data.endswith(good)
        body = data[: -len(good)]
        assert "extra bytes" in refused(decode, FetchRequest, 18, body + b"\x01\x00\x05\x04abc\x00").reason
        assert (
            "has a length of 3 bytes"
            in refused(decode, FetchRequest, 18, body + b"\x01\x00\x03\x04abc").reason
        )
        twice = body + b"\x02\x00\x04\x04abc\x00\x04\x04abc"
        assert "appears twice" in refused(decode, FetchRequest, 18, twice).reason

    def test_nothing_is_allocated_for_a_length_that_cannot_be(self):
        tracemalloc.start()
        try:
            for data in ("7fffffff" + "00" * 64, "00000001 7fff" + "00" * 64):
                refused(decode, MetadataRequest, 1, bytes.fromhex(data))
            assert tracemalloc.get_traced_memory()[1] < 64 * 1024
        finally:
            tracemalloc.stop()

    def test_start_beyond_the_buffer(self):
        assert refused(decode, ResponseHeader, 0, b"1234", 5)
        assert refused(decode, ResponseHeader, 0, b"1234", -1)

    def test_random_bytes(self):
        """Any input is a message or a ProtocolError."""
        chance = random.Random(11)
        for key, version, frame in request_seeds(chance):
            damaged = bytearray(frame)
            for _ in range(40):
                damaged[chance.randrange(0, len(damaged))] = chance.randrange(0, 256)
                try:
                    offset = decode_request_header(frame).body_offset
                    decode_request(key, version, damaged, offset)
                except ProtocolError:
                    pass


class TestInstances:
    def test_defaults_are_the_declared_ones_and_not_shared(self):
        first, second = MetadataResponse(), MetadataResponse()
        assert (first.controller_id, first.cluster_id, first.topics) == (-1, None, [])
        first.topics.append(MetadataResponseTopic())
        assert second.topics == []

    def test_unknown_keyword(self):
        with pytest.raises(TypeError, match="has no field 'topic'; its fields: topics"):
            MetadataRequest(topic=[])

    def test_positional_arguments_and_other_attributes(self):
        with pytest.raises(TypeError):
            MetadataRequest([])
        with pytest.raises(AttributeError):
            MetadataRequest().topic = []

    def test_equality_and_repr(self):
        request = ProduceRequest(
            acks=-1,
            topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=b"r")])],
        )
        assert request == copy.deepcopy(request) == pickle.loads(pickle.dumps(request))
        assert request != ProduceRequest(acks=1) and request != "request"
        assert repr(Cursor(topic_name="t")) == "Cursor(topic_name='t')"
        with pytest.raises(TypeError):
            hash(request)

    @pytest.mark.parametrize("declared", all_messages(), ids=name_of)
    def test_copies_keep_unknown_tags(self, declared):
        message = declared()
        message.unknown_tags = {1000: b"kept"}
        assert copy.copy(message) == message
        assert copy.copy(message).unknown_tags == {1000: b"kept"}


class TestBounds:
    """As Kafka has them since 4.4: an element takes far more memory than its bytes."""

    def test_a_million_elements(self):
        topics = b"\x00" * 2  # of each: an empty name, no partitions
        most = (1_000_000).to_bytes(4, "big") + topics * 1_000_000
        assert len(decode(MetadataRequest, 0, most).topics) == 1_000_000
        more = (1_000_001).to_bytes(4, "big") + topics * 1_000_001
        for read in (decode, decode_lazily):
            message = str(refused(read, MetadataRequest, 0, more))
            assert "1000001 elements, at most 1000000 are allowed" in message

    def test_ten_thousand_tags(self):
        def tagged(count):
            tags = b"".join(uvarint(1000 + i) + b"\x00" for i in range(count))
            return b"\x01\x00\x00" + uvarint(count) + tags  # no topics, two flags

        most = tagged(10_000)
        assert len(decode(MetadataRequest, 12, most).unknown_tags) == 10_000
        for read in (decode, decode_lazily):
            message = str(refused(read, MetadataRequest, 12, tagged(10_001)))
            assert "10001 tagged fields, at most 10000 are allowed" in message

    def test_a_large_array_is_decoded_as_it_is_gone_through(self):
        data = encode(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{i}") for i in range(200_000)]), 8)
        tracemalloc.start()
        try:
            request = decode_lazily(MetadataRequest, 8, data)
            assert sum(len(topic.name) for topic in request.topics) > 200_000
            assert len(request.topics) == 200_000
            assert tracemalloc.get_traced_memory()[1] < 100_000
        finally:
            tracemalloc.stop()
