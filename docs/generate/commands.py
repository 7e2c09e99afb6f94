"""Renders the page of the command line from the application in `python/bowstring/cli/app.py`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal, get_args, get_origin, get_type_hints

import typer.main

from bowstring.cli.app import application
from docs.generate.markdown import code, plain, table

HEAD = """\
# Commands

The tools work against Apache Kafka as well. `--json` prints JSON; `BOWSTRING_BOOTSTRAP_SERVERS` replaces
`--bootstrap-server`; `bowstring --install-completion` completes in the shell. Exit codes: 0 done, 1 failed
(one line on standard error says why), 2 wrong usage.
"""

VALUES: Final[dict[Any, str]] = {str: "TEXT", int: "INTEGER", float: "NUMBER", Path: "PATH"}
"""What stands for a value by its type, where the option names nothing better."""


def render() -> str:
    """The page as Markdown."""
    lines = [HEAD]
    for path, command in commands():
        lines += [f"## {path}", "", plain_help(command), ""]
        lines += [*table(("option", "value", "default", "meaning"), _options(command))]
    return "\n".join(lines)


def commands() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name such as `bowstring topics create`."""
    yield from _below("bowstring", typer.main.get_command(application()))


def _below(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if children is None:
        yield path, command
        return
    for name in sorted(children):
        yield from _below(f"{path} {name}", children[name])


def plain_help(command: Any) -> str:
    """The help of a command, its paragraphs kept."""
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    return "\n\n".join(plain(each) for each in paragraphs)


def _options(command: Any) -> Iterator[tuple[str, ...]]:
    hints = get_type_hints(command.callback)
    for each in command.params:
        is_argument = each.param_type_name == "argument"
        name = (
            each.metavar or each.name.upper()
            if is_argument
            else ", ".join([*each.opts, *each.secondary_opts])
        )
        is_flag = getattr(each, "is_flag", False)
        value = "" if is_argument or is_flag else _value(hints[each.name], each.metavar)
        default = (
            "required" if each.required else "" if each.default in (None, False, []) else code(each.default)
        )
        meaning = plain(getattr(each, "help", None) or "")
        if each.envvar:
            meaning += f" Environment: {code(each.envvar)}."
        yield code(name), code(value) if value else "", default, meaning


def _value(annotation: Any, metavar: str | None) -> str:
    """What a value looks like: `a|b` for a choice, else what the option says, or the name of the type."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    inner = [each for each in get_args(annotation) if each is not NoneType]
    return _value(inner[0], metavar) if inner else metavar or VALUES[annotation]
