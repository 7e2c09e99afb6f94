"""Implements `bowstring version`."""

from __future__ import annotations

import platform

import typer

from bowstring.cli.options import Json
from bowstring.cli.output import console, print_json
from bowstring.version import __version__


def version(json: Json = False) -> None:
    """Print the versions of Bowstring, Python and the platform."""
    facts = {
        "bowstring": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
    if json:
        print_json(facts)
    else:
        console().print(f"bowstring {facts['bowstring']} (Python {facts['python']}, {facts['platform']})")


def print_version(wanted: bool) -> None:
    """Prints the versions and ends, for `bowstring --version`."""
    if wanted:
        version()
        raise typer.Exit
