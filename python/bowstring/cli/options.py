"""Declares options shared by several commands, and parses their values."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from bowstring.cli.command_config import security
from bowstring.clients.records import TopicPartition

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar="BOWSTRING_BOOTSTRAP_SERVERS",
        metavar="HOST:PORT,…",
        help="Brokers to contact first.",
    ),
]
BOOTSTRAP_DEFAULT = "localhost:9092"

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Timeout = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="Seconds to wait for brokers.")
]
TIMEOUT_DEFAULT_S = 10.0


def admin_at(bootstrap: str, timeout_s: float) -> Admin:
    """Returns the client of a command that administers."""
    from bowstring.clients.admin.admin import Admin

    return Admin(bootstrap, timeout_ms=int(timeout_s * 1000), client_id="bowstring-cli", security=security())


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the fields of each parameter whose type is a NamedTuple as options of their own.

    Commands share a group of options so. Apply it before `app.command()`, which reads the signature.
    """
    signature = inspect.signature(command, eval_str=True)
    given = signature.parameters.values()
    groups: dict[str, Any] = {
        each.name: each.annotation for each in given if hasattr(each.annotation, "_fields")
    }
    parameters = []
    for each in given:
        if each.name not in groups:
            parameters.append(each)
            continue
        defaults = groups[each.name]._field_defaults
        for name, hint in get_type_hints(groups[each.name], include_extras=True).items():
            parameters.append(each.replace(name=name, annotation=hint, default=defaults[name]))

    @functools.wraps(command)
    def called(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field: values.pop(field) for field in group._fields})
        command(**values)

    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def pairs(values: Iterable[str], option: str) -> dict[str, str]:
    """Parses `name=value` strings into a dict.

    Raises:
        typer.BadParameter: one has no `=`.
    """
    found = {}
    for value in values:
        name, equals, rest = value.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{value!r} is not name=value", param_hint=option)
        found[name] = rest
    return found


def timestamp_ms(text: str, option: str) -> int:
    """Parses an ISO 8601 time (local time without a zone) or `@seconds` into milliseconds since the epoch.

    Raises:
        typer.BadParameter: the text is neither.
    """
    try:
        if text.startswith("@"):
            return int(float(text[1:]) * 1000)
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a time: use ISO 8601, such as 2013-01-01T05:15, or @seconds since the epoch",
            param_hint=option,
        ) from None


def partitions(value: str, option: str) -> tuple[str, list[int] | None]:
    """Parses `topic` or `topic:0,1,2` into topic and partition numbers.

    Raises:
        typer.BadParameter: a partition is not a number.
    """
    topic, colon, numbers = value.partition(":")
    if not colon:
        return topic, None
    try:
        return topic, [int(number) for number in numbers.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{value!r} is not topic or topic:0,1,2", param_hint=option) from None


def all_of(topic: str, numbers: Iterable[int]) -> list[TopicPartition]:
    """Partitions of a topic, in order."""
    return [TopicPartition(topic, number) for number in sorted(numbers)]
