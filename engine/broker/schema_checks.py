"""Finds out which schemas the records of a topic may have, for topics that require registered ones.

Reactors check ids against a set for each topic (`set_schemas`). A batch with an id that the set
does not have waits here until a schema registry has answered. What was found stays: while the registry is
away, records with known schemas are accepted, and others get an error that producers retry.
"""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from bowstring._native.server.control_request import SlowBatch
from bowstring._native.server.data_plane import DataPlane
from bowstring._native.server.plane_schemas import set_schemas, take_schemas
from bowstring._native.server.recompress import MISSING_MAX
from bowstring.engine import background, event_log
from bowstring.engine.broker.registry_lookups import (
    Registration,
    RegistryLookups,
    RegistryUnavailable,
    SchemaKey,
)
from bowstring.engine.configs import REGISTRY_CONFIG
from bowstring.protocol.errors import Errors

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.metadata.image import Metadata

_PACE_S: Final = 0.1
"""A topic's batches make the broker look up unknown schemas at most so often."""
REFRESH_S: Final = 60.0
"""So often, found schemas are looked up again: their subjects may have been deleted."""
_TOPIC: Final = "TopicNameStrategy"
_RECORD: Final = "RecordNameStrategy"
_PARTS: Final = ("key", "value")

Outcome = tuple[int, str | None]
Strategies = Callable[[str], tuple[str, str]]
"""Returns the subject name strategies of a topic's keys and values."""


def topic_strategies(topic: str, *, configs: "BrokerConfigs", metadata: "Metadata") -> tuple[str, str]:
    """Returns the subject name strategies of a topic's keys and values."""
    overrides = metadata.image.topic_configs(topic)
    key, value = (
        configs.topic_value(f"confluent.{part}.subject.name.strategy", overrides).rpartition(".")[2]
        for part in _PARTS
    )
    return key, value


def lookups_of(*, configs: "BrokerConfigs") -> RegistryLookups:
    """Returns the lookups in the registry that the broker's settings name.

    Raises:
        ValueError: an address is not one of HTTP.
    """
    return RegistryLookups(
        configs.value(REGISTRY_CONFIG),
        user_info=configs.value("confluent.basic.auth.user.info") or "",
        trusted=configs.value("confluent.ssl.truststore.location") or "",
    )


def is_registered(topic: str, part: str, strategy: str, found: Registration) -> bool:
    """Returns whether a schema is registered under the subject of a topic's keys or values."""
    if strategy == _TOPIC:
        return f"{topic}-{part}" in found.subjects
    if found.name is None:
        return False
    return (found.name if strategy == _RECORD else f"{topic}-{found.name}") in found.subjects


class _Topic:
    """What is known of a topic: its schemas, of keys and of values, by its strategies."""

    __slots__ = ("known", "lock", "looked_up", "strategies")

    def __init__(self) -> None:
        self.known: tuple[set[SchemaKey], set[SchemaKey]] = (set(), set())
        self.lock = asyncio.Lock()
        self.looked_up = float("-inf")
        self.strategies: tuple[str, str] | None = None


class SchemaChecks:
    """Resolves the schemas of batches. Belongs to the control loop.

    Args:
        plane: gets the schemas of each topic.
        lookups: asked on a thread of its own.
        strategies: of a topic.
    """

    def __init__(self, plane: DataPlane, lookups: RegistryLookups, strategies: Strategies) -> None:
        self._plane = plane
        self._lookups = lookups
        self._strategies = strategies
        self._topics: dict[str, _Topic] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="schema-registry")
        self._refresher = background.spawn(self._refresh(), "schema checks")
        self._is_away = False
        self._failures = 0  # lookups that no registry answered
        self._failure = ""

    async def resolve(self, slow: SlowBatch) -> Outcome | None:
        """Looks up the schemas that a batch has and its topic does not have yet.

        Returns:
            None: the next check of the batch decides. Else the error for its producer, which retries.
        """
        missing = slow.missing_schemas
        assert missing is not None
        topic = self._topics.setdefault(slow.topic, _Topic())
        seen = self._failures
        async with topic.lock:  # one at a time: the next batch may find what it needs
            wait_s = topic.looked_up + _PACE_S - time.monotonic()
            if (
                wait_s > 0
                and seen == self._failures
                and any(ids - known for ids, known in zip(missing, topic.known, strict=True))
            ):
                await asyncio.sleep(wait_s)
            topic.looked_up = time.monotonic()
            try:
                has_new = await self._look_up(slow.topic, topic, missing, seen)
            except RegistryUnavailable as error:
                self._report(str(error))
                return (
                    Errors.REQUEST_TIMED_OUT.code,
                    f"Schemas cannot be checked: {error}. Nothing was stored; send the batch again.",
                )
            self._is_away = False
        # The batch may have more schemas than are listed at a time. Without a new one among them, the others
        # are not asked for: it is no sensible batch.
        if take_schemas(slow, all_known=not (has_new and max(map(len, missing)) >= MISSING_MAX)):
            return None
        return (
            Errors.REQUEST_TIMED_OUT.code,
            "The partition moved or was deleted before the check of schemas. Nothing was stored; send the "
            "batch again.",
        )

    async def _look_up(
        self,
        name: str,
        topic: _Topic,
        wanted: tuple[set[SchemaKey], set[SchemaKey]],
        seen: int,
        *,
        anew: bool = False,
    ) -> bool:
        """Adds the wanted schemas that are registered.

        Args:
            name: of the topic.
            topic: what is known of it.
            wanted: schemas of keys, and of values.
            seen: the failures when the lookups were asked for.
            anew: they replace those that are known.

        Returns:
            Whether some of them are registered.

        Raises:
            RegistryUnavailable: a lookup failed after `seen`.
        """
        loop = asyncio.get_running_loop()
        found: tuple[set[SchemaKey], set[SchemaKey]] = (set(), set())
        strategies = self._strategies(name)
        if strategies != topic.strategies:
            topic.strategies, topic.known = strategies, (set(), set())
        for part, strategy, ids, into, known in zip(
            _PARTS, strategies, wanted, found, topic.known, strict=True
        ):
            for each in ids:
                if each in known and not anew:
                    continue
                registration = await loop.run_in_executor(
                    self._thread, self._ask, each, strategy != _TOPIC, seen
                )
                if is_registered(name, part, strategy, registration):
                    into.add(each)
        if anew:
            topic.known = found
        elif any(found):
            topic.known = (topic.known[0] | found[0], topic.known[1] | found[1])
        try:
            set_schemas(self._plane, name, list(topic.known[0]), list(topic.known[1]))
        except KeyError:  # the topic was deleted meanwhile
            self._topics.pop(name, None)
        # Lookups for another batch may have found them before.
        return any(not known.isdisjoint(ids) for known, ids in zip(topic.known, wanted, strict=True))

    def _ask(self, schema: SchemaKey, named: bool, seen: int) -> Registration:
        """Looks up a schema. On the thread.

        What waited for the thread while a lookup failed fails with it: each may take its timeout, and no
        producer waits for many of them.
        """
        if self._failures != seen:
            raise RegistryUnavailable(self._failure)
        try:
            return self._lookups.registration(schema, named=named)
        except RegistryUnavailable as error:
            self._failure = str(error)
            self._failures += 1
            raise
        except (KeyError, TypeError, ValueError) as error:
            self._failure = (
                f"the schema registry's answer cannot be used ({type(error).__name__}); check "
                "confluent.schema.registry.url"
            )
            self._failures += 1
            raise RegistryUnavailable(self._failure) from error

    def _report(self, detail: str) -> None:
        if not self._is_away:
            event_log.error(
                "schemas of produced records cannot be checked; producers with schemas that this broker has "
                "not seen yet wait",
                detail=detail,
            )
        self._is_away = True

    async def _refresh(self) -> None:
        """Looks up again what is known, so that schemas of deleted subjects are refused."""
        while True:
            await asyncio.sleep(REFRESH_S)
            for name, topic in list(self._topics.items()):
                try:
                    async with topic.lock:
                        await self._look_up(name, topic, topic.known, self._failures, anew=True)
                except RegistryUnavailable as error:
                    self._report(str(error))
                    break
                except Exception:
                    event_log.error(
                        "bug: schemas could not be looked up again; report the traceback",
                        traceback=True,
                        topic=name,
                    )

    async def stop(self) -> None:
        """Ends the thread."""
        self._refresher.cancel()
        with suppress(asyncio.CancelledError):
            await self._refresher
        self._thread.shutdown(wait=False, cancel_futures=True)
