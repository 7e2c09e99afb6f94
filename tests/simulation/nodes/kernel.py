"""Time, randomness and order of a run: one queue of events, determined by the seed."""

import hashlib
import heapq
from collections import deque
from random import Random

from tests.simulation.quorum.invariants import Violation

MS = 1_000_000
# Later than the steady clock of any machine: native code that compares a deadline with it never sees it pass.
MONOTONIC_NS = 1 << 60
WALL_NS = 1_800_000_000 * 1_000 * MS
STORY_LINES = 4000


class Kernel:
    """The events, in order of simulated time.

    Attributes:
        now: Simulated nanoseconds since the run began.
        running: The loop of the node whose code runs; None outside of nodes.
        steps: The number of events so far.
    """

    def __init__(self, seed):
        self.seed = seed
        self.now = 0
        self.steps = 0
        self.running = None
        self.violation: Violation | None = None
        self.is_over = False
        self.story: deque[tuple[int, str, str]] = deque(maxlen=STORY_LINES)
        self._hash = hashlib.blake2b(digest_size=8)
        self._queue: list = []
        self._numbers = 0
        self._tasks = 0

    def random(self, what):
        """A separate source of randomness, so that one part of a run does not change the others."""
        return Random(f"{self.seed} {what}")

    def number(self):
        """A number for each hashed object, so that sets have the same order in each run."""
        self._tasks += 1
        return self._tasks

    def at(self, when, call, *args):
        """Calls at a time; calls at the same time run in the order of their requests."""
        self._numbers += 1
        heapq.heappush(self._queue, (max(when, self.now), self._numbers, call, args))

    def after(self, delay_ns, call, *args):
        """Calls after a delay."""
        self.at(self.now + int(delay_ns), call, *args)

    def run(self, until):
        """Runs until a time, or until the run is over.

        Raises:
            Violation: A rule is broken.
        """
        queue = self._queue
        while queue and not self.is_over and queue[0][0] <= until:
            self.now, _, call, args = heapq.heappop(queue)
            self.steps += 1
            call(*args)
            if self.violation is not None:
                raise self.violation
        if not self.is_over:
            self.now = max(self.now, until)

    def violated(self, rule, text):
        """Notes that a rule is broken; the run ends after this event."""
        if self.violation is None:
            self.violation = Violation(rule, text)

    def say(self, who, text):
        """Adds a line to the story of the run."""
        self.story.append((self.now, who, text))
        self._hash.update(f"{self.now} {who} {text}\n".encode())

    @property
    def trace_hash(self):
        """A hash of the whole story: two runs of a seed have the same."""
        return f"{self._hash.hexdigest()}-{self.steps}"

    # ---- the clocks that nodes read

    def time_ns(self):
        """The node's time of day."""
        off_ns = 0 if self.running is None else self.running.clock_off_ns
        return WALL_NS + off_ns + self._passed()

    def monotonic_ns(self):
        """Steady time."""
        return MONOTONIC_NS + self._passed()

    def _passed(self):
        return self.now if self.running is None else self.running.read_clock()
