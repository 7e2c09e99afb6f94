"""One life of a broker: registration, heartbeats, roles from the image, changes of in-sync replicas.

It does the work of engine/broker's lifecycle and image_follower, and sends ReplicaManager's requests.
"""

from bowstring.engine.replication.replica_manager import ReplicaManager
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import SUPPORTED_FEATURES
from bowstring.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestDirectoryData,
    AssignReplicasToDirsRequestPartitionData,
    AssignReplicasToDirsRequestTopicData,
)
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from bowstring.protocol.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from bowstring.protocol.records.cluster_metadata import nodes, topics
from tests.simulation.cluster.coordinator import Coordinator
from tests.simulation.cluster.plane import SimulatedPlane
from tests.simulation.cluster.services import Shells

RETRY_MS = 100
REQUEST_TIMEOUT_MS = 600
WATCH_MS = 100
OF_BROKERS = (
    nodes.RegisterBrokerRecord,
    nodes.BrokerRegistrationChangeRecord,
    nodes.FenceBrokerRecord,
    nodes.UnfenceBrokerRecord,
    nodes.UnregisterBrokerRecord,
)
OF_PARTITIONS = (topics.PartitionRecord, topics.PartitionChangeRecord)


def address(broker):
    """The address at which a broker listens in the simulation."""
    return f"node{broker.id}", 9092


class SimulatedBroker:
    """A broker from its start to its end."""

    def __init__(self, node):
        self.node = node
        self.world = node.world
        self.epoch = -1
        self.clean_epoch = node.logs.clean_epoch
        node.logs.clean_epoch = -1
        self.is_fenced = True
        self.wants_stop = self.loses_disk = False
        self.is_serving = False
        self.incarnation = bytes([node.id + 1, node.life % 256, node.life // 256]) + bytes(13)
        self.plane = SimulatedPlane(self)
        self.manager = ReplicaManager(node.id, self.plane, node.logs, address)
        self.coordinator = Shells(self) if self.world.plan.shells else Coordinator(self)
        self.requests: dict[int, tuple] = {}
        self.number = 0
        self.asks_for_isr = False

    # ---- the controller

    def ask(self, kind, request, then):
        """Sends a request to this node's current controller; `then(answer, or KafkaError)`."""
        leader = self.node.replica.state.leader_id
        self.number += 1
        self.requests[self.number] = then
        if leader is not None and leader >= 0:
            self.world.send(
                self.node, leader, "on_controller", (self.node.id, self.node.life, self.number, kind, request)
            )
        self.node.after(REQUEST_TIMEOUT_MS, self.on_answer, self.number, KafkaError(Errors.REQUEST_TIMED_OUT))

    def on_controller(self, source, life, number, kind, request):
        """A broker's request arrives at this node's controller."""
        if kind == "register" and self.world.nodes[source].life != life:
            return  # its connection ended with it; if handled now, it would shut out the broker's next life

        def answer(result):
            self.world.send_to_life(self.node, source, life, "on_answer", (number, result))

        self.node.controller.handle(kind, request, answer)

    def on_answer(self, number, result):
        then = self.requests.pop(number, None)
        if then is not None:
            then(result)

    # ---- registration and heartbeats

    def start(self):
        self.register()

    def register(self):
        request = BrokerRegistrationRequest(
            broker_id=self.node.id,
            cluster_id="simulated",
            incarnation_id=self.incarnation,
            listeners=[Listener(name="PLAINTEXT", host=f"node{self.node.id}", port=9092)],
            features=[
                Feature(name=name, min_supported_version=low, max_supported_version=high)
                for name, (low, high) in SUPPORTED_FEATURES.items()
            ],
            log_dirs=[self.directory_id],
            previous_broker_epoch=self.clean_epoch,
        )
        self.ask("register", request, self.registered)

    @property
    def directory_id(self):
        return bytes([self.node.id + 1]) * 15 + bytes([self.node.logs.disks_lost])

    def registered(self, answer):
        if isinstance(answer, KafkaError):
            self.node.after(RETRY_MS, self.register)
            return
        self.epoch = answer.broker_epoch
        self.world.say(self.node, "is registered with epoch", self.epoch)
        self.catch_up()

    def catch_up(self):
        """Waits until this node's image has the registration and all records committed so far."""
        reached = self.node.replica.state.high_watermark
        if self.node.applied <= self.epoch or reached is None or self.node.applied < reached:
            self.node.after(20, self.catch_up)
            return
        self.begin_to_serve()

    def begin_to_serve(self):
        self.is_serving = True
        self.world.say(self.node, "serves", self.epoch)
        image = self.node.image
        keys = [(each.id, at) for each in image.topics.values() for at in range(len(each.partitions))]
        self.manager.apply(image, keys)
        self.beat()
        self.keep_house()
        self.watch()

    def beat(self):
        request = BrokerHeartbeatRequest(
            broker_id=self.node.id,
            broker_epoch=self.epoch,
            current_metadata_offset=self.node.applied - 1,
            want_fence=False,
            want_shut_down=self.wants_stop,
        )
        self.ask("heartbeat", request, self.beaten)

    def beaten(self, answer):
        pause_ms = self.world.plan.heartbeat_ms
        if isinstance(answer, KafkaError):
            pause_ms = RETRY_MS
        else:
            self.is_fenced = answer.is_fenced
            if answer.should_shut_down and self.wants_stop:
                self.world.say(self.node, "stops cleanly", self.epoch)
                life = self.node.life
                self.node.end_cleanly()
                self.world.after(self.world.plan.restart_ms, self.world.start_node, (self.node, life))
                return
            if self.is_fenced or self.wants_stop:
                pause_ms = RETRY_MS
        self.node.after(pause_ms, self.beat)

    def watch(self):
        self.plane.end_waits()
        self.node.after(WATCH_MS, self.watch)

    def keep_house(self):
        """Checks for lagging followers, and stores high watermarks as the next life will find them."""
        self.plane.check_lag()
        for _, log in self.node.logs.opened():
            log.checkpoint = log.log.high_watermark
        self.send_isr_changes()
        self.send_directories()
        self.node.after(self.world.plan.lag_max_ms / 2, self.keep_house)

    def send_directories(self):
        """Reports the location of replicas that the controller expects on a disk that was replaced."""
        moved = []
        for topic in self.node.image.topics.values():
            for at, partition in enumerate(topic.partitions):
                known = dict(zip(partition.replicas, partition.directories, strict=False))
                is_here = (topic.name, at) in self.node.logs.logs
                if is_here and known.get(self.node.id, self.directory_id) != self.directory_id:
                    index = AssignReplicasToDirsRequestPartitionData(partition_index=at)
                    moved.append(AssignReplicasToDirsRequestTopicData(topic_id=topic.id, partitions=[index]))
        if moved:
            directory = AssignReplicasToDirsRequestDirectoryData(id=self.directory_id, topics=moved)
            request = AssignReplicasToDirsRequest(
                broker_id=self.node.id, broker_epoch=self.epoch, directories=[directory]
            )
            self.ask("assign", request, lambda answer: None)

    # ---- the image

    def applied(self, records):
        """Applies committed records."""
        self.coordinator.image_changed()
        if not self.is_serving:
            return
        changed = [(each.topic_id, each.partition_id) for each in records if isinstance(each, OF_PARTITIONS)]
        brokers_changed = any(isinstance(each, OF_BROKERS) for each in records)
        if changed or brokers_changed:
            self.node.after(self.world.control_ms(), self.apply, changed, brokers_changed)

    def apply(self, changed, brokers_changed):
        self.manager.apply(self.node.image, changed, brokers_changed=brokers_changed)
        self.send_isr_changes()

    # ---- in-sync replicas

    def on_event(self, event):
        self.manager.on_events([event])
        self.send_isr_changes()

    def send_isr_changes(self):
        request = self.manager.next_request(self.node.now_ms(), self.epoch)
        if request is not None:
            self.world.say(self.node, "asks for", request)
            self.ask("alter_partition", request, self.isr_answered)

    def isr_answered(self, answer):
        if isinstance(answer, KafkaError):
            self.manager.failed(self.node.now_ms())
        else:
            self.manager.answered(answer, self.node.now_ms())
        due_ms = self.manager.isr_changes.due_ms()
        if due_ms is not None:
            self.node.after(max(0, due_ms - self.node.now_ms()) + 1, self.send_isr_changes)

    # ---- requests of other nodes

    def on_fetch(self, fetch):
        if not self.is_serving:
            return
        world, node, life = self.world, self.node, self.world.nodes[fetch.broker].life
        self.plane.take_fetch(
            fetch, lambda found: world.send_to_life(node, fetch.broker, life, "on_fetched", (fetch, found))
        )

    def on_fetched(self, fetch, found):
        self.plane.fetched(fetch, found)

    def on_range(self, source, key, leader_epoch, number):
        if self.is_serving:
            found = self.plane.range_of(key, leader_epoch)
            self.world.send(self.node, source, "on_range_found", (key, number, found))

    def on_range_found(self, key, number, found):
        self.plane.range_found(key, number, found)

    def on_client(self, kind, request, answer):
        """Handles a client's request; `answer(...)` goes back over the network."""
        if self.is_serving:
            getattr(self, f"client_{kind}")(request, answer)

    def client_produce(self, request, answer):
        self.plane.produce(request.key, request.batch, request.acks, answer)

    def client_fetch(self, request, answer):
        answer(self.plane.client_fetch(request))

    def client_commit(self, request, answer):
        self.coordinator.commit(request, answer)

    def client_offset(self, request, answer):
        self.coordinator.fetch(request, answer)

    def client_produce_transactional(self, request, answer):
        self.plane.produce_transactional(request, answer)

    def client_ask(self, request, answer):
        self.coordinator.ask(request, answer)

    def client_share(self, request, answer):
        self.coordinator.share(request, answer)

    def on_connection_ended(self, asked):
        self.coordinator.connection_ended(asked)

    def client_stable_offset(self, request, answer):
        self.coordinator.fetch(request, answer, require_stable=True)

    def on_peer(self, source, life, number, cls, version, data):
        if self.is_serving:
            self.coordinator.on_peer(source, life, number, cls, version, data)

    def on_peer_answer(self, number, key, version, data):
        self.coordinator.on_peer_answer(number, key, version, data)

    # ---- the coordinators

    def role_changed(self, part):
        self.coordinator.role_changed(part)

    def advanced(self, part):
        self.coordinator.advanced(part)

    def log_moved(self, part):
        if self.world.plan.shares:
            self.coordinator.log_moved(part)
