"""Describes decisions of access control as JSON, for files and topics."""

import json
import time

from bowstring.engine.security.access_reports import api_name, operation_name, resource_name
from bowstring.engine.security.decided import Decided


def decision_json(at_s: float, decided: Decided, **more: object) -> str:
    """Returns a decision as one line.

    Args:
        at_s: When it was made, in seconds since the epoch.
        more: Further members.
    """
    return json.dumps(
        {
            "time": _stamp(at_s),
            **more,
            "principal": decided.principal,
            "host": decided.host,
            "operation": operation_name(decided.operation),
            "resource_type": resource_name(decided.resource_type),
            "resource": decided.name,
            "allowed": decided.allowed,
            "api": api_name(decided.api),
        },
        ensure_ascii=False,
    )


def dropped_json(at_s: float, count: int, **more: object) -> str:
    """Returns a line with the number of decisions that are missing before it."""
    return json.dumps({"time": _stamp(at_s), **more, "dropped": count})


def _stamp(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"
