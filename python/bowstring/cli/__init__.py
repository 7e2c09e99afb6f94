"""Runs the command line: `main` is the entry point of `bowstring` and `python -m bowstring`.

Imported by: nothing.
May import: _native.base, _native.log, _native.protocol, _native.record, audit, clients, clients.admin,
clients.config, clients.consumer, clients.net, clients.producer, clients.registry, clients.share, cluster,
console, demo, engine.broker, engine.configs, engine.migration, engine.quorum, engine.storage, monitoring,
operations, pipeline, protocol, registry.program, rest, search, security, serve, serve_options, spark,
values, version.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 on success, 1 on failure, 2 for wrong usage.

    Prints an error as one line on standard error.
    """
    from bowstring.cli.app import application
    from bowstring.cli.exit_codes import EXIT_INTERRUPTED, code_of
    from bowstring.cli.output import client_lines

    try:
        given = list(arguments) if arguments is not None else sys.argv[1:]
        app = application(given)
        with client_lines:
            ended = app(args=given, prog_name="bowstring", standalone_mode=False)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return code_of(error)
    return ended if isinstance(ended, int) else 0
