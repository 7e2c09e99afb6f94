"""The network: carries messages as Kafka's bytes, late, out of order, twice, damaged or not at all.

It behaves like a network with connections: an answer reaches only the life of the requesting node, and a
request to a node that is down is refused. Each direction of a link is cut separately.
"""

from bowstring._native.protocol.message_codec import decode, encode
from bowstring.engine.raft import wire
from bowstring.engine.raft.messages import ErrorResponse
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import fetch, vote

LISTENER = "CONTROLLER"
_VERSIONS = {name: 1 for name in ("BeginQuorumEpoch", "EndQuorumEpoch", "FetchSnapshot", "AddRaftVoter")}
_VERSIONS |= {"RemoveRaftVoter": 0, "UpdateRaftVoter": 0, "ApiVersions": 4, "DescribeQuorum": 2}
_VERSIONS = {f"{name}Request": version for name, version in _VERSIONS.items()}


class Network:
    def __init__(self, world, random):
        self.world = world
        self.random = random
        self.cut: set[tuple[int, int]] = set()
        self.calm = False
        self.is_lossy = world.plan.drop or world.plan.duplicate

    def delay_ms(self):
        plan = self.world.plan
        low, high = plan.delay_ms
        if self.calm:
            return low
        delay = low + (high - low) * self.random.random()
        return delay * 20 if plan.slow and self.random.random() < plan.slow else delay

    def version(self, cls, source, destination):
        if cls is vote.VoteRequest:
            return min(
                self.world.plan.vote_versions[source % 8], self.world.plan.vote_versions[destination % 8]
            )
        if cls is fetch.FetchRequest:
            return min(
                self.world.plan.fetch_versions[source % 8], self.world.plan.fetch_versions[destination % 8]
            )
        return _VERSIONS[cls.__name__]

    def request(self, source, life, effect):
        """Sends the request of a node's life."""
        world = self.world
        destination = world.node_at(effect.destination)
        cls = wire.request_class(effect.request)
        if destination is None:
            self.refuse(source, life, effect, Errors.BROKER_NOT_AVAILABLE)
            return
        version = self.version(cls, source.id, destination.id)
        try:
            data = encode(wire.request_body(effect.request, version), version)
        except wire.UnsupportedVersionError:
            self.refuse(source, life, effect, Errors.UNSUPPORTED_VERSION)
            return
        token = (source.id, life, effect.destination.id, effect.correlation_id, cls, version)
        self.carry(source.id, destination.id, self.arrive, (destination.id, token, data))

    def refuse(self, source, life, effect, error):
        args = (source, life, effect.destination.id, effect.correlation_id, ErrorResponse(error))
        self.world.after(self.delay_ms(), self.answered, args)

    def carry(self, source, destination, arrive, args):
        """Lets a message arrive once, twice or not at all."""
        plan, world = self.world.plan, self.world
        if (source, destination) in self.cut:
            return
        if self.calm or not self.is_lossy:
            world.after(self.delay_ms(), arrive, args)
            return
        if self.random.random() < plan.drop:
            return
        world.after(self.delay_ms(), arrive, args)
        if self.random.random() < plan.duplicate:
            world.after(self.delay_ms(), arrive, args)

    def arrive(self, id, token, data):
        """Delivers a request to a node, or refuses it if the node is down."""
        node = self.world.nodes[id]
        source, life, asked, correlation_id, cls, version = token
        if (source, id) in self.cut:
            return
        if not node.is_up:
            if source >= 0:
                args = (self.world.nodes[source], life, asked, correlation_id)
                error = ErrorResponse(Errors.BROKER_NOT_AVAILABLE, refused=True)
                self.world.after(self.delay_ms(), self.answered, (*args, error))
            return
        request = wire.parse_request(decode(cls, version, data), version)
        assert request is not None, cls
        node.receive_request((*token, id), request)

    def respond(self, token, response):
        """Sends an answer back."""
        source, _, _, _, cls, version, id = token
        body = wire.response_body(cls, response, version, LISTENER)
        if isinstance(body, fetch.FetchResponse) and not self.calm:
            self.maybe_flip(body)
        data = encode(body, version)
        self.carry(id, source, self.arrive_back, (id, token, data))

    def maybe_flip(self, body):
        """Damages records in flight; no checksum covers the rest, as with TCP alone."""
        partition = body.responses[0].partitions[0] if body.responses else None
        if partition is not None and partition.records and self.random.random() < self.world.plan.flip:
            records = bytearray(partition.records)
            at = self.random.randrange(len(records) * 8)
            records[at // 8] ^= 1 << at % 8
            partition.records = bytes(records)

    def arrive_back(self, id, token, data):
        source, life, asked, correlation_id, cls, version, _ = token
        if (id, source) in self.cut:
            return
        response = wire.parse_response(decode(wire.response_class(cls), version, data), LISTENER)
        assert response is not None, cls
        if source < 0:
            self.world.tool_answered(response)
        else:
            self.answered(self.world.nodes[source], life, asked, correlation_id, response)

    def answered(self, node, life, asked, correlation_id, response):
        if node.is_up and node.life == life:
            node.receive_response(asked, correlation_id, response)
