"""Programs with a parser of their own, which start without the command line: help and reference have their options."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import typer.main

from bowstring.__main__ import PROGRAMS
from bowstring.cli.app import application


def parsed(program):
    """Flag, choices and default of each option by its name, of the program's own parser; not of hidden ones."""
    parser = import_module(PROGRAMS[program]).parser()
    text = re.sub(r"\s+", " ", parser.format_help())
    found = {}
    for name, default in vars(parser.parse_args([])).items():
        flag = f"--{name.replace('_', '-')}"
        if re.search(rf"{flag}\b(?!-)", text):
            choices = re.search(rf"{flag} \{{(.*?)\}}", text)
            found[name] = flag, re.split(", ?", choices[1]) if choices else [], default or None
    return found


def shown(program):
    """The same of the command line."""
    found = {}
    command = typer.main.get_command(application()).commands[program]
    hints = get_type_hints(command.callback)
    for option in command.params:
        flag = max(option.opts, key=len)
        kinds = [hints[option.name], *get_args(hints[option.name])]
        choices = [value for kind in kinds if get_origin(kind) is Literal for value in get_args(kind)]
        found[flag.lstrip("-").replace("-", "_")] = flag, choices, option.default or None
    return found


@pytest.mark.parametrize("program", PROGRAMS)
def test_help_shows_what_is_parsed(program, monkeypatch):
    monkeypatch.delenv("BOWSTRING_BOOTSTRAP_SERVERS", raising=False)
    declared, told = parsed(program), shown(program)
    assert declared.keys() == told.keys()
    for name, option in declared.items():
        assert told[name] == option, name
