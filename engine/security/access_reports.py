"""Counts what access control denies, and logs each kind once a minute."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Final

from bowstring.engine import event_log
from bowstring.engine.security.decided import Decided
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.versions import API_VERSIONS

_MINUTE_S: Final = 60
_LOGGED_MAX: Final = 1000
"""Most pairs of a principal and an operation that are logged in a minute."""
_NAME_MAX: Final = 300
_KNOWN_MAX: Final = 10_000


class AccessReports:
    """Reports of decisions.

    Attributes:
        denied: How often, by operation and type of resource.
        audit: Takes decisions; None: only denials are reported.
        audits_allowed: Whether `audit` takes what is allowed, too.
        lost: Called with the number of decisions that were lost on the way.
    """

    def __init__(self) -> None:
        self.denied: Counter[tuple[int, int]] = Counter()
        self.audit: Callable[[Decided], None] | None = None
        self.audits_allowed = False
        self.lost: Callable[[int], None] = lambda count: None
        self._logged: set[tuple[str, int]] = set()
        self._minute = 0
        self._known: set[Decided] = set()
        self._known_minute = 0

    def is_new(self, decided: Decided) -> bool:
        """Returns whether a decision was not named in this minute, as far as it is remembered."""
        minute = int(time.monotonic()) // _MINUTE_S
        if minute != self._known_minute:
            self._known_minute = minute
            self._known.clear()
        if decided in self._known:
            return False
        if len(self._known) < _KNOWN_MAX:
            self._known.add(decided)
        return True

    def note(self, decided: Decided) -> None:
        """Takes a decision to the audit, and a denial to the log."""
        if self.audit is not None:
            self.audit(decided)
        if not decided.allowed:
            self._log(decided)

    def _log(self, decided: Decided) -> None:
        minute = int(time.monotonic()) // _MINUTE_S
        if minute != self._minute:
            self._minute = minute
            self._logged.clear()
        kind = decided.principal, decided.operation
        if kind in self._logged or len(self._logged) >= _LOGGED_MAX:
            return
        self._logged.add(kind)
        event_log.warning(
            "access is denied; more denials of this principal and operation are counted, and logged again in "
            "the next minute",
            principal=decided.principal[:_NAME_MAX],
            host=decided.host,
            operation=operation_name(decided.operation),
            resource=f"{resource_name(decided.resource_type)}:{decided.name[:_NAME_MAX]}",
            api=api_name(decided.api),
        )


def operation_name(operation: int) -> str:
    """Returns Kafka's name of an operation, such as ``AlterConfigs``."""
    return AclOperation(operation).name.title().replace("_", "")


def resource_name(resource_type: int) -> str:
    """Returns Kafka's name of a type of resource, such as ``TransactionalId``."""
    return AclResourceType(resource_type).name.title().replace("_", "")


def api_name(key: int) -> str:
    """Returns the name of an API; an empty text without one."""
    return API_VERSIONS[key].name if key in API_VERSIONS else ""
