"""A node: a metadata quorum's replica with the cluster's image, a broker, and a controller while it leads."""

from typing import Any, ClassVar

from bowstring._native.record.decode import batch_headers, decode_batches
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.metadata.records import decode_record, encode_record
from bowstring.engine.raft import effects
from bowstring.engine.raft.leader import LeaderState
from bowstring.protocol.errors import KafkaError
from bowstring.protocol.features import HIGHEST_METADATA_VERSION, METADATA_VERSION
from tests.simulation.cluster.broker import SimulatedBroker
from tests.simulation.cluster.controller import SimulatedController
from tests.simulation.cluster.invariants import Losses
from tests.simulation.cluster.logs import LogStore
from tests.simulation.quorum.node import SimulatedNode

NO_LEADER = -1


class ClusterNode(SimulatedNode):
    """One node through its lives.

    Attributes: logs: Survive the lives. image: After the committed records below `applied`. broker,
    controller: Of the current life. waiting: Appends of this controller: end offset, epoch, and a function
    called with whether it is committed.
    """

    def __init__(self, world, id, rate):
        super().__init__(world, id, rate)
        self.logs = LogStore(world.medium, is_commit_mode=world.plan.commit_mode)
        self.image = ClusterImage()
        self.waiting: list[tuple] = []
        self.told = (NO_LEADER, 0)
        self.stops_at: float | None = None

    # ---- lives

    def start(self):
        self.controller = SimulatedController(self)
        self.broker = SimulatedBroker(self)
        self.waiting, self.told = [], (NO_LEADER, 0)
        self.requests = {}
        super().start()
        self.look_at_leader()
        self.broker.start()

    def kill(self):
        """The process ends; the page cache stays."""
        if self.is_up:
            # Also before it has opened its logs: the mark of a clean stop is good for one start.
            for key, log in self.logs.logs.items():
                self.world.tell("stops_uncleanly", self, key, log)
                if log.log is not None:
                    log.kill()
            super().crash((len(self.disk.pending), 1, 1))

    def power_off(self, numbers):
        """The machine fails: unsynced data may be lost."""
        if not self.is_up:
            return
        for at, (key, log) in enumerate(self.logs.logs.items()):
            self.world.tell("stops_uncleanly", self, key, log)
            if log.log is None:
                continue
            lost = log.power_off(numbers[0] >> at, torn=(numbers[1] >> at) % 2 == 0)
            if lost:
                self.world.say(self, f"loses of {key[0]}-{key[1]}", (lost[0][0], lost[-1][1]))
                self.world.tell("loses", self, key, lost)
        super().crash(numbers)

    def end_cleanly(self):
        """The end of a controlled shutdown."""
        if self.broker.loses_disk:
            self.lose_disk()
        else:
            for _, log in self.logs.opened():
                log.close()
            self.logs.clean_epoch = self.broker.epoch
        super().crash((len(self.disk.pending), 1, 1))

    def lose_disk(self):
        """The partition logs are lost, but not the metadata log."""
        for key, log in self.logs.opened():
            self.world.tell("stops_uncleanly", self, key, log)
            lost = batch_headers(log.read_all())
            log.kill()
            self.world.tell(
                "loses",
                self,
                key,
                [(each.base_offset, each.last_offset + 1, each.leader_epoch) for each in lost],
            )
        self.world.rule(Losses).replaced = True
        self.logs.logs.clear()
        self.logs.disks_lost += 1

    def end(self):
        super().end()
        self.broker = self.controller = None

    # ---- time

    def after(self, delay, call, *args):
        """Calls in this life only; a pause delays the call."""
        self.world.after(delay, self.in_life, (self.life, call, args))

    def in_life(self, life, call, args):
        if self.life == life and self.replica is not None:
            if self.paused_until > self.world.now:
                self.world.at(self.paused_until, self.in_life, (life, call, args))
            else:
                call(*args)

    # ---- the metadata log

    def load_state(self):
        self.image = ClusterImage()

    def apply_to(self, offset):
        while self.applied < offset:
            batch = self.disk.view.at(self.applied)
            assert batch is not None, (self.applied, offset)
            records = []
            for record in decode_batches(batch.data):
                if not record.control:
                    records.append(decode_record(record.value))
            self.image.apply_all(records)
            self.applied = batch.end
            self.world.applied_by(self)
            self.world.tell("applies", self, batch.base, records)
            self.broker.applied(records)
        done = [each for each in self.waiting if each[0] <= self.applied]
        self.waiting = [each for each in self.waiting if each[0] > self.applied]
        for _, _, call in done:
            call(True)

    def append_records(self, records, call):
        """Appends as the quorum's shell does; `call(is committed)` follows unless the node goes down."""
        state = self.replica.state
        if self.told[0] != self.id or not isinstance(state, LeaderState):
            call(False)
            return
        level = self.image.features.get(METADATA_VERSION, HIGHEST_METADATA_VERSION)
        entries = [(None, encode_record(each, level)) for each in records]
        try:
            offset, out = self.replica.append(state.epoch, entries, self.now_ms())
        except KafkaError:
            call(False)
            return
        self.waiting.append((offset + 1, state.epoch, call))
        self.carry_out(out)

    @property
    def next_offset(self):
        return self.replica.state.accumulator.next_offset

    def leader_changed(self, effect):
        is_own = effect.leader_id == self.id
        self.fail_appends(lambda epoch: not is_own or epoch != effect.epoch)
        super().leader_changed(effect)

    def fail_appends(self, concerns):
        failed = [each for each in self.waiting if concerns(each[1])]
        self.waiting = [each for each in self.waiting if not concerns(each[1])]
        for _, _, call in failed:
            call(False)

    def look_at_leader(self):
        """Starts the controller when this node leads with all committed records, and stops it afterwards."""
        state = self.replica.state
        leader = state.leader_id
        if isinstance(state, LeaderState):
            if self.applied <= state.epoch_start_offset:
                leader = NO_LEADER
        elif leader == self.id:
            leader = NO_LEADER
        told = (leader, state.epoch)
        if told != self.told:
            was_leader, self.told = self.told[0] == self.id, told
            if was_leader:
                self.fail_appends(lambda epoch: True)
            self.controller.leader_changed(leader, state.epoch)

    def carry_out(self, out):
        super().carry_out(out)
        if self.is_up:
            self.look_at_leader()

    EFFECTS: ClassVar[dict[type, Any]] = {**SimulatedNode.EFFECTS, effects.LeaderChanged: leader_changed}

    # ---- messages of brokers and clients

    def receive(self, life, what, args):
        """Receives a message for a life of this node; None is for any."""
        if self.replica is not None and (life is None or life == self.life):
            if self.paused_until > self.world.now:
                self.world.at(self.paused_until, self.handle, (self.life, what, args))
            else:
                getattr(self.broker, what)(*args)

    def handle(self, life, what, args):
        if self.is_up and self.life == life:
            getattr(self.broker, what)(*args)

    # ---- the medium of the partitions

    def changed(self, part):
        """In commit mode, syncs each append; otherwise the system syncs at its own time."""
        if self.world.plan.commit_mode:
            sync = part.stored.begin_sync()
            self.after(self.sync_ms(), self.end_sync, part, sync)

    def end_sync(self, part, sync):
        if part.log is None:
            return  # it was removed meanwhile
        part.stored.end_sync(sync)
        for call in part.stored.take_due():
            call()
        self.broker.plane.synced(part)

    def after_sync(self, part, call):
        """Calls once the log's current records are on the medium."""
        part.stored.when_durable(part.log.log_end_offset, call)
