"""The group coordinator's shell: loads a shard when its partition is led here, and carries its effects out.

It is what engine/groups/service.py does, for one partition of __consumer_offsets.
"""

from collections import deque

from bowstring._native.record.encode import encode_batch
from bowstring.engine.coordinators.effects import AppendRecords, Respond
from bowstring.engine.groups.config import GroupConfig
from bowstring.engine.groups.log_replay import replay_log
from bowstring.engine.groups.shard import GroupShard
from bowstring.engine.groups.state import RequestContext
from bowstring.protocol.errors import Errors

TOPIC = "__consumer_offsets"
KEY = (TOPIC, 0)
COMMIT_TIMEOUT_MS = 1500


class Coordinator:
    """The coordinator of one life of a broker. A request's token is what answers it."""

    def __init__(self, broker):
        self.broker = broker
        self.node = broker.node
        self.world = broker.world
        self.shard: GroupShard | None = None
        self.term = -1
        self.waiting: deque[tuple] = deque()
        # Loaded records reach up to here: answers that may depend on them wait until they are committed.
        self.end = 0

    # ---- life

    def role_changed(self, part):
        """The partition is led in another epoch, or by another broker."""
        if part.key != KEY or part.term == self.term:
            return
        self.drop()
        self.term = part.term
        if part.is_leader:
            self.node.after(self.world.control_ms(), self.load, part, part.term)

    def load(self, part, term):
        if self.term == term and part.is_leader:
            shard = GroupShard(GroupConfig(), lambda: "id")
            self.replay(part, shard)
            self.shard, self.end = shard, part.log.log_end_offset
            self.carry(part, shard.loaded(self.node.now_ms()))
            self.world.say(self.node, "coordinates groups from", part.log.log_end_offset)

    def replay(self, part, shard):
        replay_log(part.log, shard.replay, lambda: True)

    def drop(self):
        waiting, self.waiting = self.waiting, deque()
        self.shard = None
        for _, item in waiting:
            if isinstance(item, Respond):
                item.token(Errors.NOT_COORDINATOR.code, None)

    def image_changed(self):
        """It sends nothing to other brokers."""

    # ---- requests

    def commit(self, request, answer):
        self.ask(
            answer,
            lambda shard: shard.commit_offsets(request, RequestContext("c", "h", 8), answer, self.now()),
        )

    def fetch(self, request, answer):
        self.ask(answer, lambda shard: shard.fetch_offsets(request, answer, require_stable=False))

    def ask(self, answer, event):
        if self.shard is None:
            answer(Errors.NOT_COORDINATOR.code, None)
        else:
            self.carry(self.broker.plane.parts[KEY], event(self.shard))

    def now(self):
        return self.node.now_ms()

    # ---- effects

    def carry(self, part, effects):
        pending = deque(effects)
        while pending:
            effect = pending.popleft()
            if isinstance(effect, Respond):
                self.respond(part, effect)
            elif isinstance(effect, AppendRecords):
                pending.extend(self.append(part, effect))

    def respond(self, part, effect):
        if self.waiting or self.end > part.log.high_watermark:
            self.waiting.append((self.waiting[-1][0] if self.waiting else self.end, effect))
        else:
            effect.token(0, effect.body)

    def append(self, part, effect):
        shard = self.shard
        error = self.broker.plane.append_records(part, effect.records)
        if isinstance(error, int):
            base, end = error, part.log.log_end_offset
        else:
            return shard.append_finished(effect.append_id, error, self.now())
        shard.append_written(effect.append_id, base)
        self.waiting.append((end, effect.append_id))
        self.node.after(COMMIT_TIMEOUT_MS, self.give_up, part, shard, effect.append_id)
        self.advanced(part)
        return []

    def advanced(self, part):
        """Answers what waited for the high watermark."""
        while part.key == KEY and self.shard is not None and self.waiting:
            offset, item = self.waiting[0]
            if offset > part.log.high_watermark:
                return
            self.waiting.popleft()
            if isinstance(item, Respond):
                item.token(0, item.body)
            elif item is not None:
                self.carry(part, self.shard.append_finished(item, Errors.NONE, self.now()))

    def give_up(self, part, shard, append_id):
        if self.shard is shard and any(item == append_id for _, item in self.waiting):
            # The record is in the log; later answers, which may depend on it, wait for its offset.
            self.waiting = deque((end, None if item == append_id else item) for end, item in self.waiting)
            self.carry(part, shard.append_finished(append_id, Errors.REQUEST_TIMED_OUT, self.now()))


def encoded(records, now_ms):
    """Returns the batch of a coordinator's records."""
    return encode_batch([(key, value, now_ms, ()) for key, value in records])
