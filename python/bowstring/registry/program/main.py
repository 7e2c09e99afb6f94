"""Runs `bowstring registry`: a schema registry in its own process, until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import sys
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Sequence

from bowstring.clients.errors import ClientError
from bowstring.registry.program import registry_options
from bowstring.web import listening
from bowstring.web.serving import run, serve


def parser() -> ArgumentParser:
    """Returns the parser of the command line of `bowstring registry`."""
    made = ArgumentParser(
        prog="bowstring registry",
        description="Serve a schema registry: Confluent's REST API over a compacted topic.",
        allow_abbrev=False,
    )
    listening.add_arguments(made, registry_options.PORT_DEFAULT)
    registry_options.add_arguments(made)
    made.add_argument("--until-stdin-ends", action="store_true", help=SUPPRESS)
    return made


def main(argv: Sequence[str]) -> int:
    """Serves the registry; returns the exit status: 0 after a signal, 1 when it could not start."""
    given = parser().parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr, format="bowstring registry: %(levelname)s %(message)s", level="INFO"
    )
    try:
        options = registry_options.options_of(given)

        async def program(stop: asyncio.Event) -> None:
            from bowstring.registry.program.registry_program import RegistryProgram

            async with RegistryProgram(options) as registry:
                await serve([registry.site], stop)

        run(program, until_stdin_ends=given.until_stdin_ends)
    except (ClientError, OSError) as error:
        print(f"bowstring registry: {error}", file=sys.stderr)
        return 1
    return 0
