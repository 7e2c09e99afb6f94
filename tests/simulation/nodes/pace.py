"""How fast a node is: what code takes, how late its loop wakes up, how slow its other threads are."""

from tests.simulation.nodes.kernel import MS


class Pace:
    """Of one run.

    Args:
        stall: How often code takes very long.
        thread_ms: Between which bounds another thread takes.
    """

    def __init__(self, stall, thread_ms):
        self.stall = stall
        self.thread_ms = thread_ms
        self.is_calm = False

    def cost_ns(self, random):
        """What a piece of code takes."""
        if not self.is_calm and random.random() < self.stall:
            return random.randrange(1 * MS, 12 * MS)
        return random.randrange(1_000, 20_000)

    def late_ns(self, random):
        """How much later than it could a loop wakes up."""
        return random.randrange(0, 30_000)

    def thread_ns(self, random):
        """How long another thread takes until it has done something."""
        if self.is_calm:
            return random.randrange(20_000, MS)
        if random.random() < 0.03:
            return int(self.thread_ms[1] * 10 * MS * random.random())
        return int(random.uniform(*self.thread_ms) * MS)


class Instant(Pace):
    """That of the clients: they take no time."""

    def __init__(self):
        super().__init__(0.0, (0, 0))

    def cost_ns(self, random):
        return 100
