"""One broker for the module; after every test it must still serve, and must have logged the closed connections."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.target import target_class
from tests.support.waiting import wait_until
from tests.system.bad_input.victim import KEEP, Victim


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    broker = target_class()(
        tmp_path_factory.mktemp("victim"), {"socket.request.max.bytes": str(8 << 20), **KEEP}
    )
    broker.start()
    yield Victim(broker)
    assert broker.alive(), broker.tail()
    assert broker.stop() in (0, 143), broker.tail()
    assert "Traceback" not in broker.tail(1 << 20)


@pytest.fixture
def victim(running: Victim) -> Iterator[Victim]:
    """The broker; after the test it still serves a normal client."""
    yield running
    running.still_serves()


def on_some_connection(work: Callable[[], Victim | None]) -> Victim | None:
    """Does the work again when a connection was closed under it, which was idle while the machine stood still."""
    problems: list[Exception] = []

    def is_done() -> list[Victim | None]:
        try:
            return [work()]
        except (AssertionError, OSError) as problem:
            problems.append(problem)
            return []

    (done,) = wait_until(is_done, lambda: repr(problems[-1]))
    return done


@pytest.fixture
def own_victim(tmp_path: Path) -> Iterator[Callable[[dict[str, str]], Victim]]:
    """Starts a broker with the test's settings, which may make it close connections soon."""
    started: list[Victim] = []

    def start(settings: dict[str, str]) -> Victim:
        broker = target_class()(tmp_path / "victim", {**KEEP, **settings})
        broker.start()
        victim = on_some_connection(lambda: Victim(broker))
        assert victim is not None
        started.append(victim)
        return victim

    yield start
    for victim in started:
        on_some_connection(victim.still_serves)
        victim.broker.stop()
