"""A node: the shell that the core needs, on a simulated disk, network and clock; and a state machine."""

from random import Random
from typing import ClassVar

from bowstring._native.record.decode import decode_batches
from bowstring.engine.raft import effects
from bowstring.engine.raft.config import QuorumConfig
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.leader import LeaderState
from bowstring.engine.raft.replica import RaftReplica
from bowstring.engine.raft.voters import Endpoint, Node, Voter
from bowstring.protocol.errors import KafkaError
from tests.simulation.quorum.batches import EMPTY, SnapshotDamaged, next_digest, read_snapshot, snapshot
from tests.simulation.quorum.disk import Disk, DiskDamaged
from tests.simulation.quorum.network import LISTENER


class SimulatedNode:
    """One node through its lives.

    Attributes:
        life: Counts the starts; what belongs to an earlier life is ignored.
        applied: Records below were applied to the state machine, whose state is `digest`.
        promised: Appends of this life that wait: last offset, epoch and value of the last record.
    """

    def __init__(self, world, id, rate):
        self.world = world
        self.id = id
        self.rate = rate
        self.directory = 0
        self.port = 9000
        self.life = 0
        self.disk = Disk()
        self.replica: RaftReplica | None = None
        self.config = QuorumConfig(
            append_linger_ms=world.plan.linger_ms,
            retry_backoff_ms=world.plan.retry_ms,
            fetch_max_bytes=world.plan.fetch_max_bytes,
            fetch_snapshot_max_bytes=world.plan.snapshot_max_bytes,
            auto_join=world.plan.auto_join,
        )
        self.paused_until = 0.0
        self.lost_disks: dict[ReplicaKey, Disk] = {}
        self.last_voters = world.first_voters
        self.applied, self.digest = 0, EMPTY
        self.promised: list[tuple[int, int, bytes]] = []
        self.state = None

    # ---- identity and time

    @property
    def key(self):
        return ReplicaKey(self.id, bytes([1, self.id, self.directory]) + bytes(13))

    @property
    def voter(self):
        return Voter(self.key, (Endpoint(LISTENER, f"node{self.id}", self.port),))

    @property
    def address(self):
        return Node(self.id, f"node{self.id}", self.port)

    @property
    def is_up(self):
        return self.replica is not None

    def now_ms(self):
        return int(self.world.now * self.rate) + 1_000_000

    # ---- lives

    def start(self):
        """Begins a life; a node whose disk lost synced data stays down."""
        self.life += 1
        self.disk.on_append = self.appended
        self.disk.on_truncate = self.truncated
        try:
            self.disk.open()
        except DiskDamaged as error:
            self.world.say(self, "stays down", error)
            return
        stored = None if self.disk.quorum_state is None else ElectionState.from_json(self.disk.quorum_state)
        random = Random(f"{self.world.plan.seed} {self.id} {self.life}")
        self.queue, self.is_blocked, self.persisting = [], False, None
        self.last_sync_end = 0.0
        self.timer_at = None
        self.applied, self.digest = 0, EMPTY
        self.promised = []
        configured, bootstrap = self.bootstrap = self.world.facts_for(self)
        self.replica = RaftReplica(
            self.voter,
            self.disk,
            self.config,
            random.randrange,
            configured=configured,
            bootstrap=bootstrap,
            cluster_id="simulated",
            listener=LISTENER,
        )
        self.load_state()
        self.world.say(self, "starts", stored)
        self.carry_out(self.replica.start(stored, self.now_ms()))

    def crash(self, numbers):
        """Ends a life at once."""
        if not self.is_up:
            return
        kept = numbers[0] % (len(self.disk.pending) + 1)
        self.disk.crash(kept, numbers[1] % 2 == 0, numbers[1] % 3 == 0)
        if self.persisting is not None and numbers[2] % 2 == 0:
            self.disk.quorum_state = self.persisting
        self.end()

    def end(self):
        self.last_voters = self.replica.voters
        self.replica = None
        self.state = None
        self.world.say(self, "is down", self.disk.quorum_state)

    def replace_disk(self):
        """Gets an empty disk, and with it another directory id."""
        assert not self.is_up
        self.lost_disks[self.key] = self.disk
        self.directory += 1
        self.disk = Disk()

    # ---- events

    def receive_request(self, token, request):
        self.later(self.handle_request, (self.life, token, request))

    def handle_request(self, life, token, request):
        if self.life == life and self.is_up:
            self.world.say(self, "gets", request)
            before = self.replica.state
            out = self.replica.receive_request((token, request), request, self.now_ms())
            self.world.handled(self, request, before)
            self.carry_out(out)

    def receive_response(self, asked, correlation_id, response):
        self.later(self.handle_response, (self.life, asked, correlation_id, response))

    def handle_response(self, life, asked, correlation_id, response):
        if self.life == life and self.is_up:
            self.world.say(self, f"gets from {asked}", response)
            before = (self.replica.state, getattr(self.replica.state, "fetch_deadline_ms", 0))
            out = self.replica.receive_response(asked, correlation_id, response, self.now_ms())
            self.world.heard(self, asked, response, before)
            self.carry_out(out)

    def later(self, call, args):
        """Handles an event now, or when the pause is over."""
        if self.paused_until > self.world.now:
            self.world.at(self.paused_until, call, args)
        else:
            call(*args)

    def timer(self, life, at):
        if self.life != life or self.replica is None or self.timer_at != at:
            return  # an earlier one was set meanwhile
        self.timer_at = None
        if self.paused_until > self.world.now:
            self.set_timer(self.paused_until)
        elif self.replica.deadline_ms <= self.now_ms():
            self.carry_out(self.replica.poll(self.now_ms()))
        else:
            self.set_timer(self.deadline())

    def deadline(self):
        at = (self.replica.deadline_ms + 1 - 1_000_000) / self.rate
        return max(at, self.world.now)

    def set_timer(self, at):
        if at < 1e15 and (self.timer_at is None or at < self.timer_at):
            self.timer_at = at
            self.world.at(at, self.timer, (self.life, at))

    def append(self, values):
        """Appends as the controller does, if this node believes that it leads."""
        state = self.replica.state
        if not isinstance(state, LeaderState):
            return None
        try:
            entries = [(None, value) for value in values]
            offset, out = self.replica.append(state.epoch, entries, self.now_ms())
        except KafkaError:
            return None
        self.promised.append((offset, state.epoch, values[-1]))
        self.carry_out(out)
        return offset

    # ---- effects

    def carry_out(self, out):
        """Carries effects out, in order, and those behind a `PersistElection` after it."""
        self.queue += out
        self.go_on()
        self.set_timer(self.deadline())
        self.world.check(self)

    def go_on(self):
        while self.queue and not self.is_blocked:
            effect = self.queue.pop(0)
            self.EFFECTS[type(effect)](self, effect)

    def persist(self, effect):
        text = effect.state.to_json(effect.kraft_version, effect.voter_ids)
        self.is_blocked = self.world.waits_for_persist
        self.persisting = text if self.world.keeps_votes or effect.state.voted is None else None
        self.world.after(self.sync_ms(), self.persisted, (self.life, text, effect.state))

    def persisted(self, life, text, state):
        if self.life == life and self.is_up:
            if self.world.keeps_votes or state.voted is None:
                self.disk.quorum_state = text
            self.persisting = None
            self.is_blocked = False
            self.carry_out(self.replica.election_persisted(self.now_ms()))

    def flush(self, effect):
        end = max(self.world.now + self.sync_ms(), self.last_sync_end)
        self.last_sync_end = end
        self.world.at(end, self.flushed, (self.life, effect.flush_id, self.disk.written))

    def flushed(self, life, flush_id, number):
        if self.life == life and self.is_up:
            self.disk.sync(number)
            self.carry_out(self.replica.log_flushed(flush_id, self.now_ms()))

    def install(self, effect):
        self.world.after(self.sync_ms(), self.installed, (self.life, effect.id))

    def installed(self, life, id):
        if self.life != life or not self.is_up:
            return
        try:
            self.disk.install_snapshot(id)
        except SnapshotDamaged as error:
            self.world.say(self, "deletes the snapshot", error)
            self.carry_out(self.replica.snapshot_failed(id, self.now_ms()))
            return
        self.world.say(self, "installs", id)
        self.carry_out(self.replica.snapshot_installed(id, self.now_ms()))

    def send(self, effect):
        self.world.say(self, f"sends to {effect.destination.id}", effect.request)
        self.world.sends(self, effect.request)
        self.world.network.request(self, self.life, effect)

    def respond(self, effect):
        token, request = effect.token
        self.world.say(self, "answers", effect.response)
        self.world.answers(self, request, effect.response)
        self.world.network.respond(token, effect.response)

    def advance(self, effect):
        self.apply_to(effect.offset)
        self.world.committed(self, effect.offset)
        while self.promised and self.promised[0][0] < effect.offset:
            offset, _, value = self.promised.pop(0)
            self.world.acknowledged(self, offset, value)

    def leader_changed(self, effect):
        self.world.say(self, "sees", effect)
        self.promised = [each for each in self.promised if each[1] == effect.epoch]
        if effect.leader_id != self.id:
            self.promised = []

    def note(self, effect):
        self.world.say(self, "notes", effect.text)

    EFFECTS: ClassVar = {
        effects.PersistElection: persist,
        effects.FlushLog: flush,
        effects.InstallSnapshot: install,
        effects.Send: send,
        effects.Respond: respond,
        effects.HighWatermarkAdvanced: advance,
        effects.LeaderChanged: leader_changed,
        effects.Note: note,
    }

    def sync_ms(self):
        low, high = self.world.plan.sync_ms
        return low if self.world.network.calm else self.world.random.uniform(low, high)

    # ---- the state machine

    def appended(self, batch):
        self.world.appended(self, batch)

    def truncated(self, offset):
        self.world.say(self, "truncates to", offset)

    def load_state(self):
        id = self.disk.latest_snapshot_id()
        if id is not None:
            self.applied, self.digest = id.offset, read_snapshot(self.disk.snapshots[id])
            self.world.loaded(self)

    def apply_to(self, offset):
        """Applies committed records; a snapshot first if the log no longer has them."""
        if self.applied < self.disk.start_offset:
            self.load_state()
        while self.applied < offset:
            batch = self.disk.view.at(self.applied)
            assert batch is not None, (self.applied, offset, self.disk.view.start, self.disk.view.end)
            for record in decode_batches(batch.data):
                if record.offset < self.applied:
                    continue
                if not record.control:
                    self.digest = next_digest(self.digest, record.value)
                self.applied = record.offset + 1
            self.world.applied(self)

    def take_snapshot(self, numbers):
        """Writes a snapshot of the present state."""
        if self.applied == 0 or self.disk.part is not None:
            return
        batch = self.disk.view.at(self.applied - 1)
        latest = self.disk.latest_snapshot_id()
        if batch is None or (latest is not None and latest.offset >= self.applied):
            return
        id = OffsetAndEpoch(self.applied, batch.epoch)
        data = snapshot(id, self.replica.snapshot_records(id), self.digest)
        self.disk.add_snapshot(id, data, keep_old=numbers[0] % 3 == 0)
        self.replica.snapshot_created(id)
        self.world.say(self, "snapshots", id)
        self.world.snapshotted(self, id)
