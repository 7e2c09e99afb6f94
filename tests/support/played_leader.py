"""A leader that a test plays: it says what it answers to a follower."""

import socket

from bowstring.protocol import decode_request, encode_response
from bowstring.protocol.frames import decode_request_header
from bowstring.protocol.messages import fetch
from tests.support.addresses import own_address
from tests.support.waiting import HANG_S

LEADER = 9
SESSION = 7


class PlayedLeader:
    """Accepts one follower, and answers each fetch as the test says."""

    def __init__(self):
        self.listener = socket.create_server((own_address(), 0))
        self.listener.settimeout(HANG_S)
        self.host, self.port = self.listener.getsockname()
        self.connection = None

    def fetched(self):
        """Returns the next fetch."""
        if self.connection is None:
            self.connection = self.listener.accept()[0].makefile("rwb")
        frame = self.connection.read(int.from_bytes(self.connection.read(4), "big"))
        header = decode_request_header(frame)
        self.version, self.correlation_id = header.api_version, header.correlation_id
        return decode_request(header.api_key, header.api_version, frame, header.body_offset)

    def answer(self, topic_id, *errors):
        """Answers it with an error for each partition, from 0 on."""
        self._answer(
            topic_id,
            [fetch.PartitionData(partition_index=i, error_code=e.code) for i, e in enumerate(errors)],
        )

    def give(self, topic_id, records):
        """Answers it with records of partition 0."""
        self._answer(topic_id, [fetch.PartitionData(partition_index=0, records=records)])

    def _answer(self, topic_id, partitions):
        topics = [fetch.FetchableTopicResponse(topic_id=topic_id, partitions=partitions)]
        body = fetch.FetchResponse(session_id=SESSION, responses=topics)
        frame = encode_response(1, self.version, self.correlation_id, body)
        self.connection.write(len(frame).to_bytes(4, "big") + frame)
        self.connection.flush()

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.listener.close()
