"""Registries of one group in simulated time (tests/support/registry_world.py), among crashes and cut networks."""

import asyncio
import json
import os
from collections.abc import Coroutine
from typing import Any

import pytest

from bowstring.clients.errors import ClientError
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_node import NotLeader
from tests.support.registry_world import (
    GROUP,
    LOG,
    READING,
    Image,
    SimulatedLoop,
    World,
    note,
    register,
)

SEEDS, TESTS = 32, 4
URLS = [f"http://registry-{number}:8081" for number in (1, 2, 3)]
STEPS = 60
CALM_S = 120.0


class Story:
    """Clients register schemas while faults come and go; at the end all is well again.

    Attributes:
        acknowledged: ids that clients got, by text.
        noted: tokens that were acknowledged.
    """

    def __init__(self, seed: int, loop: SimulatedLoop):
        self.world = World(seed, loop)
        self.rng = self.world.rng
        self.acknowledged: dict[str, int] = {}
        self.tasks: set[asyncio.Task[None]] = set()
        self.texts = 0
        self.tokens = 0
        self.noted: set[str] = set()
        self.rarity = "forget" if seed % 2 else "freeze"

    async def run(self) -> None:
        for url in URLS:
            self.start(url)
        for _ in range(STEPS):
            for _ in range(self.rng.choice([0, 1, 3, 6, 30])):
                self.begin_write()
            await self.world.passed(self.rng.choice([0.001, 0.01, 0.1, 1.0, 4.0]))
            if self.rng.random() < 0.5:
                await self.fault()
        await self.calm()

    def start(self, url: str) -> None:
        self.begin(self.keep_started(url))

    async def keep_started(self, url: str) -> None:
        """A registry that cannot read its topic ends; its supervisor starts it again."""
        life = self.world.restart(url)
        try:
            await life.node.start()
        except ClientError:
            if not life.dead:
                life.crash()
                self.start(url)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def fault(self) -> None:
        rng, world = self.rng, self.world
        url = rng.choice(URLS)
        life = world.lives[url]
        kinds = [
            "crash",
            "stop",
            "cut",
            "cut",
            "heal",
            "heal",
            "move",
            "down",
            "again",
            "behind",
            self.rarity,
        ]
        kind = rng.choice(kinds)
        if kind == "crash":
            life.crash()
            await self.world.passed(rng.choice([0.0, 0.5, 5.0]))
            self.start(url)
        elif kind == "stop" and life.node.is_loaded:
            await life.node.stop()
            life.crash()
            self.start(url)
        elif kind == "behind":  # who takes over lags behind
            for each in world.lives.values():
                each.cut |= set() if each.node.is_leader else {READING}
            for leader in [each for each in world.lives.values() if each.node.is_leader]:
                self.begin_write()
                await world.passed(0.1)
                await leader.node.stop()
                leader.crash()
                self.start(leader.url)
        elif kind == "cut":
            life.cut |= {rng.choice([GROUP, LOG, READING])}
        elif kind == "heal":
            self.heal()
        elif kind == "move":
            world.move_coordinator()
        elif kind == "down":
            world.down |= {rng.choice([GROUP, LOG])}
        elif kind == "forget":  # takes days: no message of an earlier producer is on its way
            for each in world.lives.values():
                each.cut |= {GROUP} if each.node.is_leader else set()
            world.forget_producer()
        elif kind == "freeze":
            life.frozen_until = world.loop.time() + rng.uniform(1.0, 30.0)
        elif kind == "again" and life.node.is_loaded:
            life.node.recreated()

    def heal(self) -> None:
        self.world.down.clear()
        for life in self.world.lives.values():
            life.cut.clear()

    def begin_write(self) -> None:
        texts = []
        for _ in range(self.rng.choice([1, 1, 1, 3])):
            known = self.texts and self.rng.random() < 0.2
            self.texts += not known
            texts.append(f"t{self.rng.randint(1, self.texts) if known else self.texts}")
        if self.rng.random() < 0.3:
            self.tokens += 1
            texts = []
        self.begin(self.write(self.rng.choice(URLS), texts, f"token-{self.tokens}"))

    async def write(self, url: str, texts: list[str], token: str = "") -> None:
        decide: Any = register(*dict.fromkeys(texts)) if texts else note(token)
        life = self.world.lives[url]
        for _ in range(2):
            if life.dead:
                return
            try:
                answer = await life.node.write(decide)
            except NotLeader as error:
                life = self.world.lives.get(error.leader_url or "", life)
                continue
            except RegistryError:
                return
            if not life.dead:  # otherwise the answer is lost with the connection
                self.acknowledge(answer)
            return

    def acknowledge(self, answer: dict[str, int] | str) -> None:
        if isinstance(answer, str):
            self.noted.add(answer)
            return
        stored = self.world.log.schemas
        for text, id in answer.items():
            assert stored.get(id) == text, f"{text} has no id {id} in the topic, but an answer"
            assert self.acknowledged.setdefault(text, id) == id, f"{text} got ids {id} and another one"

    async def calm(self) -> None:
        """Heals everything; then every registry takes writes, and all have the same schemas."""
        self.heal()
        self.world.lost_answers = 0.0
        await self.world.passed(CALM_S)
        for url in URLS:
            for _ in range(30):
                self.acknowledged.pop("last", None)
                await self.write(url, ["last"])
                if "last" in self.acknowledged:
                    break
            assert "last" in self.acknowledged, f"{url} takes no writes"
        await self.world.passed(30.0)
        image = self.world.log.image()  # fails when an id or a schema is there twice
        lost = {text for text, id in self.acknowledged.items() if image.ids.get(text) != id}
        assert not lost, f"acknowledged, and lost: {lost}"
        tokens = [json.loads(key).get("token") for key, _ in self.world.log.records]
        written = [each for each in tokens if each]
        assert len(written) == len(set(written)), "a write that was refused is done, too"
        assert self.noted <= set(written), "a write is lost"
        assert sorted(image.texts) == list(range(1, len(image.texts) + 1)), "ids have gaps"
        for url in URLS:
            found: Any = self.world.lives[url].node.image
            assert found.ids == image.ids, f"{url} lags behind"
        leaders = [url for url in URLS if self.world.lives[url].node.is_leader]
        assert len(leaders) == 1, leaders
        assert {self.world.lives[url].node.leader_url for url in URLS} == set(leaders)


def run(seed: int) -> None:
    loop = SimulatedLoop()
    failures: list[dict] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(Story(seed, loop).run())
        assert not failures, failures[0]
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        asyncio.set_event_loop(None)
        loop.close()


@pytest.mark.parametrize("part", range(TESTS))
def test_no_id_is_given_twice_and_no_schema_is_lost(part):
    chosen, before = os.environ.get("BOWSTRING_SEED"), Image.batches
    for seed in [int(chosen)] if chosen else range(1 + part, 1 + SEEDS, TESTS):
        run(seed)
    assert Image.batches > before, "no two writes shared a batch"
