"""Declares the options of `bowstring serve`: a row each, for its parser, help, completion and the reference.

Help and completion are typer's, which takes too long to load for the start of a broker.
"""

from __future__ import annotations

import os
from argparse import ArgumentParser, HelpFormatter
from typing import Any, Final, NamedTuple

from bowstring.protocol.whole_numbers import whole_number

DESCRIPTION: Final = "Run a broker until SIGTERM, SIGINT or SIGHUP stops it cleanly."
_COLUMNS: Final = 80
"""Of help where there is no terminal."""


class ServeOption(NamedTuple):
    """An option.

    Attributes:
        flag: its name on the command line.
        help: what it does, with its default.
        metavar: what stands for its value; empty for a flag, which has none.
        kind: type of the value.
        choices: the values that there are; empty for any.
        repeats: whether it may be given several times.
        bare: its value where it is given without one; None if it needs one.
    """

    flag: str
    help: str
    metavar: str = ""
    kind: type[int] | type[str] = str
    choices: tuple[str, ...] = ()
    repeats: bool = False
    bare: int | None = None

    @property
    def name(self) -> str:
        """Its name in Python."""
        return self.flag.lstrip("-").replace("-", "_")

    @property
    def is_flag(self) -> bool:
        """Whether it has no value."""
        return not self.metavar


OPTIONS: Final = (
    ServeOption(
        "--data",
        "Data directory (log.dirs); default ./bowstring-data; repeat for several disks.",
        "DIR",
        repeats=True,
    ),
    ServeOption(
        "--durability",
        "Acknowledge from the medium (commit, the default) or from the page cache (os, as in Kafka).",
        "WHERE",
        choices=("commit", "os"),
    ),
    ServeOption("--host", "Address to listen on; default 127.0.0.1.", "HOST"),
    ServeOption("--port", "Port to listen on; default 9092; 0: any free port.", "PORT", int),
    ServeOption(
        "--listen-unauthenticated",
        "Allow an address that other machines can reach, although clients are not authenticated; without "
        "--host: all interfaces.",
    ),
    ServeOption("--config", "Kafka's server.properties, or TOML with its keys.", "FILE"),
    ServeOption("--strict-config", "Refuse unknown keys of a server.properties instead of warning."),
    ServeOption("--set", "One config; may be repeated.", "KEY=VALUE", repeats=True),
    ServeOption("--metrics-port", "Serve Prometheus text on this port.", "PORT", int),
    ServeOption(
        "--console",
        "Show the cluster on web pages on this port of localhost; 8080 without one; 0: any.",
        "PORT",
        int,
        bare=8080,
    ),
    ServeOption(
        "--registry-port",
        "Serve a schema registry on this port of localhost; Confluent's is 8081; 0: any.",
        "PORT",
        int,
    ),
    ServeOption(
        "--rest-port",
        "Serve a REST proxy on this port of localhost; Confluent's is 8082; 0: any.",
        "PORT",
        int,
    ),
    ServeOption(
        "--http-allow-origin",
        "Pages that may call the schema registry and the REST proxy (CORS), as https://app.example.org, with "
        "commas between them; * for all; default: none.",
        "ORIGIN,…",
    ),
    ServeOption(
        "--log-format", "Format of log lines: text (default) or json.", "FORMAT", choices=("text", "json")
    ),
    ServeOption(
        "--log-level",
        "Least severe level to log: debug, info (default), warning, error.",
        "LEVEL",
        choices=("debug", "info", "warning", "error"),
    ),
)


def parser() -> ArgumentParser:
    """Returns the parser of the command line of `bowstring serve`."""
    made = ArgumentParser(
        prog="bowstring serve", description=DESCRIPTION, allow_abbrev=False, formatter_class=_formatter
    )
    for option in OPTIONS:
        made.add_argument(option.flag, help=option.help, **_argument(option))
    return made


def _argument(option: ServeOption) -> dict[str, Any]:
    if option.is_flag:
        return {"action": "store_true"}
    found: dict[str, Any] = {"type": option.kind, "metavar": option.metavar}
    if option.choices:
        found["choices"] = option.choices
    if option.repeats:
        found |= {"action": "append"}
    if option.bare is not None:
        found |= {"nargs": "?", "const": option.bare}
    return found


def _formatter(prog: str) -> HelpFormatter:
    """Returns argparse's own formatter. Without a width it would import shutil and with it all compressors,
    already when an option is declared.
    """
    columns = whole_number(os.environ.get("COLUMNS", ""))
    if columns is None:
        try:
            columns = os.get_terminal_size().columns
        except OSError:
            columns = 0
    return HelpFormatter(prog, width=(columns or _COLUMNS) - 2)
