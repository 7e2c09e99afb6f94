"""Random lives of a share partition, compared with a plain model that tracks each record."""

import random

import pytest

from bowstring._native.share.partition import SharePartition
from tests.support.share_records import Acknowledged, record_batch

LOCK_MS = 1000
LOCKS = 60
STEPS = 300
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVING, ARCHIVED = 0, 1, 2, 3, 4
ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
STATE_AFTER = {ACCEPT: ACKNOWLEDGED, RELEASE: AVAILABLE, REJECT: ARCHIVED, 0: ARCHIVED}


class Life:
    """One share partition, its log, and what must hold for both.

    Attributes:
        held: By offset, the member, the end of the lock and the deliveries.
        done: Offsets that are acknowledged or archived, and stored.
        deliveries: By offset.
        changes: Pending changes, each with the new state of its records by offset.
        letters: Records being copied to the dead-letter topic, in half of all lives.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now_ms = 1_700_000_000_000
        self.log_start = self.random.randrange(50)
        self.limit = self.random.choice((2, 3, 5))
        self.dead_letters = seed % 2 == 1
        self.share = SharePartition(self.log_start)
        self._configure()
        self.log = []
        self.end = self.log_start
        self.held = {}
        self.done = set()
        self.deliveries = {}
        self.changes = []
        self.letters = []

    def _configure(self):
        self.share.configure(
            delivery_count=self.limit,
            record_locks=LOCKS,
            lock_ms=LOCK_MS,
            renew=True,
            dead_letters=self.dead_letters,
        )

    def append(self):
        for _ in range(self.random.randrange(1, 5)):
            first = self.end
            self.end += self.random.choice((1, 1, 3, 10))
            if self.random.random() < 0.1:  # compaction took the end of a batch's range
                self.end += self.random.randrange(4)
            self.log.append((first, self.end - 1))

    def fetch(self):
        if not self.share.can_acquire:
            return
        offset = self.share.next_fetch_offset
        batches = [each for each in self.log if each[1] >= offset][: self.random.randrange(1, 12)]
        if not batches:
            return
        member = self.random.randrange(1, 5)
        most, limited = self.random.choice((1, 5, 20)), self.random.random() < 0.3
        taken, count, sent = self.share.acquire(
            member,
            b"".join(record_batch(*each) for each in batches),
            fetch_offset=offset,
            max_records=most,
            batch_size=self.random.choice((1, 4, 50)),
            now_ms=self.now_ms,
            record_limit=limited,
        )
        assert count == sum(last - first + 1 for first, last, _ in taken)
        assert bool(sent) is bool(taken)
        if limited:
            assert count <= most
        for first, last, deliveries in taken:
            for each in range(first, last + 1):
                assert each not in self.held, f"record {each} is held by {self.held[each]}"
                assert each not in self.done, f"record {each} is done"
                assert not any(begin <= each <= end for begin, end, _ in self.letters), (
                    f"record {each} is given up"
                )
                self.deliveries[each] = self.deliveries.get(each, 0) + 1
                assert self.deliveries[each] == deliveries <= self.limit
                self.held[each] = (member, self.now_ms + LOCK_MS)

    def acknowledge(self):
        pending = self._pending()
        free = sorted(set(self.held) - pending)
        if not free:
            return
        first = self.random.choice(free)
        member = self.held[first][0]
        last = first
        while last + 1 in self.held and last + 1 not in pending and self.random.random() < 0.8:
            last += 1
        kinds = [
            self.random.choice((ACCEPT, ACCEPT, RELEASE, REJECT, RENEW, 0)) for _ in range(first, last + 1)
        ]
        if self.random.random() < 0.4:
            kinds = kinds[:1]
        change = self.share.acknowledge(member, [Acknowledged(first, last, kinds)], self.now_ms)
        each_kind = kinds * (last - first + 1) if len(kinds) == 1 else kinds
        if any(self.held[each][0] != member for each in range(first, last + 1)):
            assert change.error
            for each, kind in zip(range(first, last + 1), each_kind, strict=True):
                if self.held[each][0] != member:
                    break
                if kind == RENEW:
                    self.held[each] = (member, self.now_ms + LOCK_MS)
            return
        assert change.error == 0, change.reason
        became = {}
        for each, kind in zip(range(first, last + 1), each_kind, strict=True):
            if kind == RENEW:
                self.held[each] = (member, self.now_ms + LOCK_MS)
            else:
                became[each] = self._state(each, STATE_AFTER[kind], rejected=kind == REJECT)
        self._check_change(change, became)
        self.changes.append((change, became))

    def _pending(self):
        return {each for _, became in self.changes for each in became}

    def _state(self, offset, state, *, rejected=False):
        given_up = ARCHIVING if self.dead_letters else ARCHIVED
        if rejected:
            return given_up
        if offset < self.share.start_offset:
            return ARCHIVED
        return given_up if state == AVAILABLE and self.deliveries[offset] >= self.limit else state

    def _check_change(self, change, became):
        stored = {
            offset: state for first, last, state, _ in change.batches for offset in range(first, last + 1)
        }
        assert stored == became
        letters = {
            offset: rejected
            for first, last, _, rejected in change.dead_letters
            for offset in range(first, last + 1)
        }
        assert letters.keys() == {offset for offset, state in became.items() if state == ARCHIVING}
        assert all(rejected or self.deliveries[each] >= self.limit for each, rejected in letters.items())

    def _settle(self, change, became):
        """Applies a stored change to the model."""
        self.letters += [letter[:3] for letter in change.dead_letters]
        for each, state in became.items():
            del self.held[each]
            if state in (ACKNOWLEDGED, ARCHIVED):
                self.done.add(each)

    def copy(self):
        """A copy is written, or fails."""
        if self.letters:
            first, last, count = self.letters.pop(self.random.randrange(len(self.letters)))
            assert self.share.copied(first, last, count).batches == [(first, last, ARCHIVED, count)]
            self.done |= set(range(first, last + 1))
            self.share.move_start()

    def release(self):
        member = self.random.randrange(1, 5)
        pending = self._pending()
        change = self.share.release(member, self.now_ms)
        became = {
            each: self._state(each, AVAILABLE)
            for each, (holder, _) in self.held.items()
            if holder == member and each not in pending
        }
        self._check_change(change, became)
        self.changes.append((change, became))

    def complete(self):
        if not self.changes:
            return
        change, became = self.changes.pop(self.random.randrange(len(self.changes)))
        stored = self.random.random() < 0.8
        self.share.complete(change, self.now_ms, stored=stored)
        if stored:
            self._settle(change, became)

    def expire(self):
        pending = self._pending()
        change = self.share.expire(self.now_ms)
        over = {e for e, (_, deadline) in self.held.items() if deadline <= self.now_ms and e not in pending}
        became = {each: self._state(each, AVAILABLE) for each in over}
        self._check_change(change, became)
        self._settle(change, became)
        self.share.move_start()

    def wait(self):
        self.now_ms += self.random.choice((1, 200, LOCK_MS))

    def restart(self):
        """The leader moves: stored state remains; acquisitions exist in memory only and are lost."""
        if self.changes or self.random.random() > 0.1:
            return
        batches = []
        for first, last, state, count, _, _ in self.share.states():
            if state == ACQUIRED:
                state, count = AVAILABLE, count - 1
                self.deliveries |= dict.fromkeys(range(first, last + 1), count)
            if last >= self.share.start_offset and count > 0:
                batches.append((max(first, self.share.start_offset), last, state, count))
        self.share = SharePartition(self.share.start_offset, batches)
        self._configure()
        self.held.clear()

    def check(self):
        share = self.share
        for each in range(self.log_start, share.start_offset):
            assert each in self.done, f"record {each} is lost"
        assert share.start_offset <= share.end_offset + 1
        previous, done = -1, 0
        for first, last, state, count, member, pending in share.states():
            assert previous < first <= last
            previous = last
            if state in (ACKNOWLEDGED, ARCHIVED):
                done += max(0, last - max(first, share.start_offset) + 1)
            for each in range(first, last + 1):
                if state == ACQUIRED:
                    assert self.held[each][0] == member and count == self.deliveries[each]
                assert pending or state not in (ACKNOWLEDGED, ARCHIVED) or each in self.done
        assert share.delivery_complete_count == done
        pending = self._pending()
        locks = [deadline for each, (_, deadline) in self.held.items() if each not in pending]
        assert not locks or share.next_deadline_ms <= min(locks)


@pytest.mark.parametrize("first_seed", range(0, 100, 25))
def test_random_lives(first_seed):
    """No record is held by two members, none is delivered after it is done, and none is lost."""
    for seed in range(first_seed, first_seed + 25):
        life = Life(seed)
        steps = [life.append, life.fetch, life.fetch, life.acknowledge, life.acknowledge, life.acknowledge]
        steps += [
            life.complete,
            life.complete,
            life.complete,
            life.copy,
            life.copy,
            life.release,
            life.wait,
            life.expire,
            life.restart,
        ]
        for number in range(STEPS):
            step = life.random.choice(steps)
            try:
                step()
                life.check()
            except AssertionError as error:
                raise AssertionError(f"seed {seed}, step {number} {step.__name__}: {error}") from error
