"""A broker whose answers a test chooses, over real sockets: for answers that a real broker gives only after failures."""

import contextlib
import socket
import struct
import threading

from bowstring.protocol import frames
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from bowstring.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from bowstring.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from bowstring.protocol.versions import API_VERSIONS
from tests.support.addresses import own_address

CLOSE = object()
SILENCE = object()
TOPIC_ID = bytes(range(16))


UNSUPPORTED = Errors.UNSUPPORTED_VERSION.code


class FakeBroker:
    """`handlers` maps request classes to functions of (version, request) that return a response, CLOSE or SILENCE.

    A request without a handler ends its connection. The requests of a connection are answered one by one: behind one that a handler keeps waiting, all others wait.
    """

    def __init__(self, partitions=1, api_versions_max=5, port=0):
        self.partitions = partitions
        self.api_versions_max = api_versions_max
        self.requests = []
        self.by_connection = []  # their classes, by connection
        self.spoil = None  # changes the bytes of an encoded answer
        self.write = lambda connection, data: connection.sendall(data)
        self.lock = threading.Lock()
        self.handlers = {
            ApiVersionsRequest: self.api_versions,
            MetadataRequest: self.metadata,
            InitProducerIdRequest: lambda version, request: InitProducerIdResponse(
                producer_id=7, producer_epoch=0
            ),
        }
        self.listener = socket.create_server((own_address(), port))
        self.host, self.port = self.listener.getsockname()
        self.sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def bootstrap(self):
        return f"{self.host}:{self.port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)  # ends accept(), which close() does not
        self.listener.close()
        for each in self.sockets:
            each.close()

    def seen(self, cls):
        with self.lock:
            return [request for request in self.requests if isinstance(request, cls)]

    def handler(self, request, connection):
        """Returns what answers a request; None turns it away: a client of another test, which looks for its own broker."""
        found = self.handlers.get(type(request))
        if found is None:
            # For the case that it is the client of the test, which then fails.
            print(f"{self.bootstrap} turns {connection.getpeername()} away: {type(request).__name__}")
        return found

    def api_versions(self, version, request):
        newest = {ApiVersionsRequest.api_key: self.api_versions_max}
        keys = [
            ApiVersion(api_key=api.key, min_version=api.lowest, max_version=newest.get(api.key, api.highest))
            for api in API_VERSIONS.values()
        ]
        code = 0 if version <= self.api_versions_max else Errors.UNSUPPORTED_VERSION.code
        return ApiVersionsResponse(error_code=code, api_keys=keys)

    def metadata(self, version, request):
        topics = [
            MetadataResponseTopic(
                name=topic.name,
                topic_id=TOPIC_ID,
                partitions=[
                    MetadataResponsePartition(
                        partition_index=i, leader_id=1, replica_nodes=[1], isr_nodes=[1]
                    )
                    for i in range(self.partitions)
                ],
            )
            for topic in request.topics or []
        ]
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host=self.host, port=self.port)],
            controller_id=1,
            cluster_id="fake",
            topics=topics,
        )

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.sockets.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            stream = connection.makefile("rb")
            here = []
            self.by_connection.append(here)
            while len(prefix := stream.read(4)) == 4:
                frame = stream.read(struct.unpack(">i", prefix)[0])
                head = frames.decode_request_header(frame)
                request = frames.decode_request(head.api_key, head.api_version, frame, head.body_offset)
                with self.lock:
                    self.requests.append(request)
                    here.append(type(request))
                if (handler := self.handler(request, connection)) is None:
                    return
                answer = handler(head.api_version, request)
                if answer is CLOSE:
                    return
                if answer is not SILENCE:
                    version = head.api_version
                    if isinstance(answer, ApiVersionsResponse) and answer.error_code == UNSUPPORTED:
                        version = 0
                    data = frames.encode_response(head.api_key, version, head.correlation_id, answer)
                    data = self.spoil(data) if self.spoil is not None else data
                    self.write(connection, struct.pack(">i", len(data)) + data)


def produced(request, *, error=0, base_offset=0):
    """Returns an answer to a ProduceRequest with the same result for every partition."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                name=topic.name,
                topic_id=topic.topic_id,
                partition_responses=[
                    PartitionProduceResponse(index=part.index, error_code=error, base_offset=base_offset)
                    for part in topic.partition_data
                ],
            )
            for topic in request.topic_data
        ]
    )


def batches_of(request: ProduceRequest):
    """Returns the bytes of each batch of a request."""
    return [part.records for topic in request.topic_data for part in topic.partition_data]
