"""How producers end: forgotten, at the interpreter's exit, or in a fork. No record is lost silently."""

from __future__ import annotations

import logging
import time
import weakref
from typing import TYPE_CHECKING, Any

from bowstring.clients import forks
from bowstring.clients.errors import ClientError, ForkedError

if TYPE_CHECKING:
    from bowstring.clients.producer.sender import Sender

CLOSE_TIMEOUT_S = 10.0  # for the last counts of an audit
_log = logging.getLogger("bowstring.producer")


def watch(producer: object, sender: Sender) -> weakref.finalize[Any, Any]:
    """Ensures that sent records are delivered when `producer` is collected or the interpreter ends.

    The finalizer's `detach()` is for `close()`, which then does so itself.
    """
    forks.watch(sender)
    return weakref.finalize(producer, _finish, sender)


def end(sender: Sender, timeout_s: float | None) -> None:
    """Aborts an open transaction, sends the rest and ends the sender's thread."""
    transactions = sender.transactions
    if transactions is not None and transactions.active and not sender.closing and not sender.in_callback():
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        try:
            transactions.abort(timeout_s)
        except ClientError as error:
            _log.warning("an open transaction was not aborted, and ends by its timeout: %s", error)
        timeout_s = None if deadline is None else max(0.0, deadline - time.monotonic())
    sender.stop(timeout_s)
    if sender.reporter is not None:
        # In a callback the sender's thread goes on after this: its end comes before the last report.
        within_callback = sender.in_callback()
        sender.reporter.close(0 if within_callback else CLOSE_TIMEOUT_S, sender.thread.join)


def _finish(sender: Sender) -> None:
    """Delivers waiting records within delivery_timeout_ms; logs how many were lost, if any."""
    if isinstance(sender.failure, ForkedError):
        return  # waiting records belong to the parent
    failed_before = sender.metrics.errors
    end(sender, sender.config.delivery_timeout_s)
    lost = 0 if sender.in_callback() else sender.metrics.errors - failed_before
    if lost:
        _log.error(
            "%d records were not delivered before the end, within delivery_timeout_ms: %s. "
            "close() or flush() a producer and look at its futures to know which",
            lost,
            sender.last_error,
        )
