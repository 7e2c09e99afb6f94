"""Keeps the consumer instances of one caller; ends those that nobody uses. Belongs to the event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from bowstring.clients.errors import ClientError
from bowstring.rest.records.schema_encoding import registry_of
from bowstring.rest.v2.consumed_values import ConsumedValues
from bowstring.rest.v2.consumer_instance import ConsumerInstance, missing_instance
from bowstring.rest.v2.consumer_settings import ConsumerSettings
from bowstring.web.http_error import HttpError

if TYPE_CHECKING:
    from bowstring.clients.consumer.consumer import Consumer
    from bowstring.rest.callers import Caller, Callers

_log = logging.getLogger("bowstring.rest")

Key = tuple[str, str]


class ConsumerInstances:
    """Instances of one caller, by group and name. No other caller finds them.

    Args:
        caller: the caller.
        callers: everybody; counts instances.
    """

    def __init__(self, caller: Caller, callers: Callers):
        self._caller, self._callers = caller, callers
        self._options = callers.options
        self._known: dict[Key, ConsumerInstance] = {}
        self._ending: set[asyncio.Future[None]] = set()
        caller.endings.append(self.end_all)

    def create(self, group: str, settings: ConsumerSettings) -> None:
        """Makes an instance.

        Raises:
            HttpError: 40902, there is one of this name; 429, there are too many.
            ConfigError: the settings are wrong.
        """
        key = (group, settings.name)
        if key in self._known:
            raise HttpError(
                409, 40902, f"group {group} has a consumer instance {settings.name}; delete it, or rename"
            )
        values = ConsumedValues(settings.format, registry_of(self._caller, self._options))
        self._callers.open_consumer(self._caller)
        given = settings.of_client(self._caller.settings, self._options, group)
        self._known[key] = ConsumerInstance(
            settings, values, lambda: _consumer(given), self._callers.consumer_threads
        )
        self._look_later(key, self._options.consumer_idle_s)

    def find(self, group: str, name: str) -> ConsumerInstance:
        """Returns an instance.

        Raises:
            HttpError: 40403.
        """
        found = self._known.get((group, name))
        if found is None:
            raise missing_instance()
        found.used_at = time.monotonic()
        return found

    async def delete(self, group: str, name: str) -> None:
        """Ends an instance.

        Raises:
            HttpError: 40403.
            ClientError: its last commit failed.
        """
        instance = self.find(group, name)
        del self._known[group, name]
        try:
            await instance.end()
        finally:
            self._callers.close_consumer(self._caller)

    def end_all(self) -> asyncio.Future[Any]:
        """Ends all instances; returns what to wait for."""
        known, self._known = self._known, {}
        return asyncio.gather(*self._ending, *(self._end(key, each) for key, each in known.items()))

    async def _end(self, key: Key, instance: ConsumerInstance) -> None:
        try:
            await instance.end()
        except ClientError as error:
            _log.warning("closing consumer instance %s of group %s failed: %s", key[1], key[0], error)
        except Exception:
            _log.exception("closing consumer instance %s of group %s failed", key[1], key[0])
        finally:
            self._callers.close_consumer(self._caller)

    # ------------------------------------------------------------ idle instances

    def _look_later(self, key: Key, wait_s: float) -> None:
        asyncio.get_running_loop().call_later(wait_s, self._look, key, self._known[key])

    def _look(self, key: Key, instance: ConsumerInstance) -> None:
        """Ends an instance that nobody used for too long."""
        if self._known.get(key) is not instance:
            return
        silent_s = time.monotonic() - instance.used_at
        if instance.is_used or silent_s < self._options.consumer_idle_s:
            self._look_later(key, max(0.01, self._options.consumer_idle_s - silent_s))
            return
        del self._known[key]
        ending = asyncio.ensure_future(self._end(key, instance))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)


def _consumer(given: dict[str, Any]) -> Consumer:
    from bowstring.clients.consumer.consumer import Consumer

    return Consumer(**given)
