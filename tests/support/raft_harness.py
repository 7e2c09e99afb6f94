"""Replicas without a network: a log in memory, effects carried out at once or by hand."""

from bowstring._native.record.encode import encode_batch
from bowstring.engine.raft import effects
from bowstring.engine.raft.config import QuorumConfig
from bowstring.engine.raft.election_state import ElectionState
from bowstring.engine.raft.keys import OffsetAndEpoch, ReplicaKey
from bowstring.engine.raft.messages import LeaderAndEpoch, VoteResponse
from bowstring.engine.raft.replica import RaftReplica
from bowstring.engine.raft.voters import Endpoint, Node, Voter, VoterSet
from tests.simulation.quorum.batches import bootstrap_snapshot
from tests.simulation.quorum.disk import Disk

LISTENER = "CONTROLLER"


def key(id):
    return ReplicaKey(id, bytes([id + 1]) * 16)


def voter(id, port=9000):
    return Voter(key(id), (Endpoint(LISTENER, f"node{id}", port),))


def voters(*ids):
    return VoterSet(voter(id) for id in ids)


class Harness:
    """Replica `id` of voters 0, 1, …; what it sends and answers is collected.

    `auto` lets the disk work at once. Time stands still unless a test moves it.
    """

    def __init__(
        self,
        ids=(0, 1, 2),
        stored=None,
        disk=None,
        dynamic=True,
        id=0,
        is_controller=True,
        linger_ms=0,
        **config,
    ):
        self.disk = disk or Disk()
        if dynamic and disk is None:
            self.disk.snapshots[OffsetAndEpoch(0, 0)] = bootstrap_snapshot(voters(*ids))
        self.now, self.auto = 1000, True
        self.sent, self.answers, self.persisted, self.high_watermarks = [], {}, [], []
        self.flushes, self.installs, self.notes = [], [], []
        self.config = QuorumConfig(append_linger_ms=linger_ms, **config)
        self.replica = RaftReplica(
            voter(id),
            self.disk,
            self.config,
            lambda below: below // 2,
            configured=VoterSet() if dynamic else voters(*ids),
            bootstrap=[Node(id, f"node{id}", 9000) for id in ids],
            cluster_id="c",
            listener=LISTENER,
            can_become_voter=is_controller,
        )
        self.carry_out(self.replica.start(stored, self.now))

    @property
    def state(self):
        return self.replica.state

    def carry_out(self, out):
        for effect in out:
            match effect:
                case effects.PersistElection():
                    self.persisted.append(effect.state)
                    if self.auto:
                        self.carry_out(self.replica.election_persisted(self.now))
                case effects.FlushLog():
                    self.flushes.append(effect.flush_id)
                    if self.auto:
                        self.flush()
                case effects.InstallSnapshot():
                    self.installs.append(effect.id)
                case effects.Send():
                    self.sent.append(effect)
                case effects.Respond():
                    self.answers[effect.token] = effect.response
                case effects.HighWatermarkAdvanced():
                    self.high_watermarks.append(effect.offset)
                case effects.Note():
                    self.notes.append(effect.text)

    def flush(self):
        """Ends the requested syncs."""
        ids, self.flushes = self.flushes, []
        self.disk.sync(self.disk.written)
        for id in ids:
            self.carry_out(self.replica.log_flushed(id, self.now))

    def ask(self, request, token="token"):
        """Passes a request in; returns the answer, None when it waits."""
        self.answers.pop(token, None)
        self.carry_out(self.replica.receive_request(token, request, self.now))
        return self.answers.get(token)

    def answer(self, response, to=-1):
        """Answers a request that was sent, the last one by default."""
        send = self.sent.pop(to)
        out = self.replica.receive_response(send.destination.id, send.correlation_id, response, self.now)
        self.carry_out(out)

    def wait(self, ms):
        """Advances the time, with all timers that are due meanwhile."""
        end = self.now + ms
        while self.replica.deadline_ms <= end:
            self.now = max(self.now, int(self.replica.deadline_ms))
            self.carry_out(self.replica.poll(self.now))
        self.now = end

    def requests(self, cls):
        """The sent requests of a class."""
        return [each.request for each in self.sent if isinstance(each.request, cls)]

    def vote(self, granted=True):
        """Has every recipient of a vote request answer it."""
        for send in [each for each in self.sent if hasattr(each.request, "pre_vote")]:
            self.sent.remove(send)
            said = VoteResponse(LeaderAndEpoch(-1, self.state.epoch), vote_granted=granted)
            self.carry_out(
                self.replica.receive_response(send.destination.id, send.correlation_id, said, self.now)
            )

    def lead(self):
        """Wins an election."""
        self.wait(2 * self.config.election_timeout_ms)
        self.vote()
        self.vote()
        return self


def batch(offset, epoch, *values):
    """A batch of records."""
    rows = [(None, value, 0, None) for value in values or (b"v",)]
    return encode_batch(rows, base_offset=offset, leader_epoch=epoch)


def log_of(*epochs):
    """A disk whose log has one record of each of these epochs."""
    disk = Disk()
    for offset, epoch in enumerate(epochs):
        disk.append(batch(offset, epoch))
    disk.sync(disk.written)
    return disk


def stored(epoch, leader_id=-1, voted=None):
    """The stored state of a previous life."""
    return ElectionState(epoch, leader_id, voted)
