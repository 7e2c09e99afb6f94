"""Gives every command that connects `--command-config`: a properties file with settings of TLS and SASL,
as Kafka's tools have it. Environment variables give them, too.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bowstring.cli.output import print_error
from bowstring.clients.config.security import environment_security, security_of_properties
from bowstring.clients.errors import ConfigError

CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        envvar="BOWSTRING_COMMAND_CONFIG",
        metavar="FILE",
        help="Properties file with settings of TLS and SASL, as Kafka's tools have it.",
    ),
]
_OPTION = "command_config"
_BOOTSTRAP = "bootstrap"

_PROTECTING = ("security.", "ssl.", "sasl.")
_CLOSE = 0.9
"""Of a name to be a misspelling; no two settings of Kafka are as similar."""

_file: dict[str, str] = {}


def security() -> dict[str, Any] | None:
    """Returns settings of TLS and SASL for the clients of this command; those of the file win over those
    of the environment. None: plain text.
    """
    return {**environment_security(), **_file} or None


def _read(path: Path | None) -> None:
    """Reads the file of this command.

    Raises:
        ConfigError: it cannot be read.
    """
    _file.clear()
    if path is None:
        return
    entries = properties_of(path)
    found, others = security_of_properties({name: value for name, value, _ in entries})
    lines = {name: line for name, _, line in entries}
    for name in others:
        if meant := _meant(name):
            raise ConfigError(
                f"--command-config: {path}:{lines[name]}: {name} is unknown; did you mean {meant}?"
            )
    _file.update(found)
    if others:
        print_error(f"{path}: no effect on commands: {', '.join(others)}")


def properties_of(path: Path) -> list[tuple[str, str, int]]:
    """Returns name, value and line of each setting in a file.

    Raises:
        ConfigError: it cannot be read.
    """
    from bowstring.security.properties_file import parse_properties

    try:
        return parse_properties(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"--command-config: cannot read {path}: {error}") from error


def _meant(name: str) -> str | None:
    """Returns the setting of which an unknown one is a misspelling; it would protect nothing."""
    if not name.startswith(_PROTECTING):
        return None
    import difflib

    from bowstring.security.security_names import CANONICAL

    return next(iter(difflib.get_close_matches(name, list(CANONICAL), 1, _CLOSE)), None)


def connecting(app: typer.Typer) -> typer.Typer:
    """Adds the option to all commands that have --bootstrap-server; returns the app."""
    for command in app.registered_commands:
        if command.callback is not None and _BOOTSTRAP in inspect.signature(command.callback).parameters:
            command.callback = _with_option(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            connecting(group.typer_instance)
    return app


def _with_option(command: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(command, eval_str=True)
    if _OPTION in signature.parameters:
        return command

    @functools.wraps(command)
    def wrapper(*, command_config: Path | None = None, **arguments: Any) -> Any:
        _read(command_config)
        return command(**arguments)

    parameters = list(signature.parameters.values())
    at = [each.name for each in parameters].index(_BOOTSTRAP) + 1
    option = inspect.Parameter(
        _OPTION, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=CommandConfig
    )
    parameters.insert(at, option)
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {each.name: each.annotation for each in parameters}
    return wrapper
