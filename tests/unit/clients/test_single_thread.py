"""Clients refuse a second thread and calls within calls, but not a call after one that was interrupted."""

import threading

import pytest

from bowstring.clients.errors import ClientError
from bowstring.clients.single_thread import SingleThread


def interrupted(owner):
    """A call that a signal's exception ends before `__exit__` has run."""
    owner.__enter__()
    raise KeyboardInterrupt


def test_a_call_after_an_interrupted_one():
    owner = SingleThread("thing")
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            interrupted(owner)
    with owner:
        pass


def test_calls_within_calls_and_from_other_threads_are_refused():
    owner, refused = SingleThread("thing"), []

    def use():
        try:
            with owner:
                pass
        except ClientError as error:
            refused.append(str(error))

    with owner:
        use()
        other = threading.Thread(target=use)
        other.start()
        other.join()
        with owner.lent(), owner:
            pass
        use()
    use()
    assert len(refused) == 3 and all("another thread" in each for each in refused)
