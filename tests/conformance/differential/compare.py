"""Compares two transcripts, and separates deliberate differences from others."""

from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import zip_longest
from typing import Any, NamedTuple

import pytest

from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS
from tests.conformance.differential.deliberate import DELIBERATE, Deliberate
from tests.conformance.differential.talk import API_KEYS, Talk
from tests.support.target import Broker

_ABSENT = "(absent)"
UNKNOWN_SERVER_ERROR = -1
ATTEMPTS_OF_KAFKA = 5


class Difference(NamedTuple):
    """One field whose values differ."""

    where: str
    step: str
    path: str
    kafka: Any
    bowstring: Any

    def __str__(self) -> str:
        return f"{self.step} | {self.path}\n    kafka     {self.kafka!r:.600}\n    bowstring {self.bowstring!r:.600}"


class KafkaFailedError(AssertionError):
    """Kafka answered UNKNOWN_SERVER_ERROR, as a busy one does when it could not read its own state in time."""


class Pair:
    """Both brokers, the test modules compared so far, and the used rows of the table."""

    def __init__(self, kafka: Broker, bowstring: Broker) -> None:
        self.kafka, self.bowstring = kafka, bowstring
        self.needed: set[int] = set()
        self.modules: set[str] = set()

    def hold(self, where: str, script: Callable[[Talk], None], version: int, attempts: int) -> None:
        """Runs a script against both and fails on every difference that the table does not explain, each time."""
        self.modules.add(where.split("::")[0])
        prefix = where.removeprefix("test_").replace("::test_", "-").replace("[", "-").replace("]", "")
        for attempt in range(max(attempts, ATTEMPTS_OF_KAFKA) - 1):
            try:
                return self._compare(where, script, version, f"{prefix}-{attempt}" if attempt else prefix)
            except AssertionError as difference:
                if attempt >= attempts - 1 and not isinstance(difference, KafkaFailedError):
                    raise
                print(f"attempt {attempt}: {difference}")
        self._compare(where, script, version, f"{prefix}-last")

    def _compare(self, where: str, script: Callable[[Talk], None], version: int, prefix: str) -> None:
        (kafka, failed), (bowstring, failed_too) = (
            self._transcript(broker, script, prefix, version) for broker in (self.kafka, self.bowstring)
        )
        for broker, error, transcript in (("Kafka", failed, kafka), ("Bowstring", failed_too, bowstring)):
            if error is not None:
                raise AssertionError(f"{broker}: {error!r}; last answers: {transcript[-2:]}") from error
        found = differences(where, kafka, bowstring)
        unexplained = [each for each in found if not self._explained(each)]
        told = f"{len(unexplained)} differences:\n" + "\n".join(map(str, unexplained))
        if any(
            each.path.endswith("error_code") and each.kafka == UNKNOWN_SERVER_ERROR for each in unexplained
        ):
            raise KafkaFailedError(told)
        assert not unexplained, told

    def stale(self) -> list[Deliberate]:
        """Returns the rows that explained no difference."""
        return [row for number, row in enumerate(DELIBERATE) if number not in self.needed]

    def _transcript(
        self, broker: Broker, script: Callable[[Talk], None], prefix: str, version: int
    ) -> tuple[list[tuple[str, Any]], Exception | None]:
        """Returns the transcript, and the error that ended it early: the other broker's state must not depend on it."""
        talk = Talk(broker.host, broker.port, prefix, version, broker.ports)
        try:
            script(talk)
        except Exception as error:
            return talk.transcript, error
        finally:
            talk.close()
        return talk.transcript, None

    def _explained(self, difference: Difference) -> bool:
        rows = [number for number, row in enumerate(DELIBERATE) if row.covers(difference)]
        self.needed.update(rows)
        return bool(rows)


def differences(
    where: str, kafka: list[tuple[str, Any]], bowstring: list[tuple[str, Any]]
) -> list[Difference]:
    """Returns every differing field of every answer, in order."""
    found: list[Difference] = []
    for number, (theirs, ours) in enumerate(zip_longest(kafka, bowstring, fillvalue=(_ABSENT, _ABSENT)), 1):
        step = f"{where} step {number}: {theirs[0]}"
        if theirs[0] != ours[0]:
            found.append(Difference(where, step, "request", theirs[0], ours[0]))
            break
        _walk(where, step, "", theirs[1], ours[1], found)
    return found


def _walk(where: str, step: str, path: str, kafka: Any, bowstring: Any, found: list[Difference]) -> None:
    if isinstance(kafka, dict) and isinstance(bowstring, dict):
        for key in kafka | bowstring:
            below = f"{path}.{key}" if path else str(key)
            _walk(where, step, below, kafka.get(key, _ABSENT), bowstring.get(key, _ABSENT), found)
    elif isinstance(kafka, list) and isinstance(bowstring, list):
        for index, (theirs, ours) in enumerate(zip_longest(kafka, bowstring, fillvalue=_ABSENT)):
            _walk(where, step, f"{path}.{index}", theirs, ours, found)
    elif kafka != bowstring or type(kafka) is not type(bowstring):
        found.append(Difference(where, step, path, kafka, bowstring))


def versions(api: str, first: int = 0, last: int = 0x7FFF) -> range:
    """Returns the versions of an API between `first` and `last` that this broker offers."""
    key = API_KEYS[api]
    assert key in BY_BROKER.offered, f"{api} is not offered"
    found = API_VERSIONS[key]
    return range(max(first, found.lowest), min(last, found.highest) + 1)


def matches(difference: Difference, where: str, path: str) -> bool:
    """Whether a row's patterns fit a difference."""
    return fnmatchcase(difference.where, where) and fnmatchcase(difference.path, path)


def conversation(
    in_versions: range = range(1), *, attempts: int = 1
) -> Callable[[Callable[[Talk], None]], Any]:
    """Turns a script into a test: it runs against both brokers, once for each version, and the answers must agree.

    Args:
        in_versions: The versions.
        attempts: For scripts with steps that must precede a timer, or follow Kafka's coordinator seeing a new
            topic. A busy machine may miss that moment; a real difference between the brokers shows in each
            attempt.
    """

    def decorate(script: Callable[[Talk], None]) -> Any:
        def test(pair: Pair, request: pytest.FixtureRequest, version: int) -> None:
            pair.hold(f"{request.node.path.stem}::{request.node.name}", script, version, attempts)

        test.__name__ = script.__name__
        test.__doc__ = script.__doc__
        return pytest.mark.parametrize("version", in_versions)(test)

    return decorate
