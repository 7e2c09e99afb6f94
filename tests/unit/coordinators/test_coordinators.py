"""The list of a broker's coordinators."""

import asyncio

from bowstring.engine.broker.coordination import Coordination
from bowstring.engine.coordinators.coordinators import Coordinators
from bowstring.engine.metadata.names import INTERNAL_TOPICS


class Noted:
    """A coordinator that notes its calls, and does something when it starts."""

    def __init__(self, name, log, when_started=lambda: None):
        self.name, self.log, self.when_started = name, log, when_started

    def start(self):
        self.log.append((self.name, "start"))
        self.when_started()

    async def stop(self):
        self.log.append((self.name, "stop"))

    def topic_deleted(self, topic, topic_id):
        self.log.append((self.name, "deleted", topic, topic_id))

    def high_watermark_advanced(self, topic, partition):
        self.log.append((self.name, "advanced", topic, partition))


def made(log):
    coordinators = Coordinators(
        {
            "user": lambda: Noted("user", log, lambda: (coordinators.of("used"), coordinators.of("user"))),
            "used": lambda: Noted("used", log),
            "idle": lambda: Noted("idle", log),
        }
    )
    return coordinators


def test_a_coordinator_begins_when_it_is_needed():
    log = []
    coordinators = made(log)
    assert coordinators.topics == ("user", "used", "idle")
    assert list(coordinators) == [] and coordinators.get("user") is None
    assert coordinators.of("user") is coordinators.of("user") is coordinators.get("user")
    assert log == [("user", "start"), ("used", "start")]
    assert coordinators.get("topic of clients") is None


def test_events_reach_those_that_have_begun():
    log = []
    coordinators = made(log)
    coordinators.topic_deleted("t", b"i")
    coordinators.of("used")
    coordinators.of("user")  # begins later and stops first
    log.clear()
    coordinators.topic_deleted("t", b"i")
    coordinators.high_watermark_advanced("t", 3)
    asyncio.run(coordinators.stop())
    assert log == [
        *((name, "deleted", "t", b"i") for name in ("user", "used")),
        *((name, "advanced", "t", 3) for name in ("user", "used")),
        *((name, "stop") for name in ("user", "used")),
    ]


def test_a_coordinator_that_fails_keeps_events_from_no_other():
    log = []
    coordinators = made(log)
    failing = coordinators.of("user")

    def fail(*facts):
        raise RuntimeError(facts)

    failing.topic_deleted = failing.high_watermark_advanced = fail
    log.clear()
    coordinators.topic_deleted("t", b"i")
    coordinators.high_watermark_advanced("t", 3)
    assert log == [("used", "deleted", "t", b"i"), ("used", "advanced", "t", 3)]


def test_each_internal_topic_has_its_coordinator():
    """A fourth one is a topic, a service and a row in `Coordination`."""
    parts = dict.fromkeys(
        ("node_id", "changes", "producer_ids", "led_logs", "peers", "time_slices", "disk_reads")
    )
    coordination = Coordination(None, None, None, None, **parts)
    assert set(coordination.coordinators.topics) == INTERNAL_TOPICS
