"""Runs the command line: `main` is the entry point of `bowstring` and `python -m bowstring`.

Imported by: the entry points.
May import: _native.base, _native.log, _native.protocol, _native.record, clients, clients.admin,
clients.config, clients.consumer, clients.net, clients.producer, clients.share, cluster, demo, engine.broker,
engine.configs, engine.migration, engine.quorum, engine.storage, pipeline, protocol, serve, spark, version.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as in shells


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns 0 on success, 1 on failure, 2 for wrong usage.

    Prints an error as one line on standard error.
    """
    from bowstring.cli.app import app
    from bowstring.cli.output import client_lines

    try:
        given = list(arguments) if arguments is not None else None
        with client_lines:
            ended = app(args=given, prog_name="bowstring", standalone_mode=False)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return _ended_by(error)
    return ended if isinstance(ended, int) else 0


def _ended_by(error: Exception) -> int:
    """Returns the exit code for an exception of a command; raises bugs again."""
    import typer

    from bowstring.clients.errors import ClientError, ConfigError

    # typer has its own copy of click or uses an installed one; BadParameter leads to the right UsageError.
    if isinstance(error, typer.BadParameter.__mro__[1]):
        return _wrong_usage(error)
    if isinstance(error, typer.Abort):
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output has closed the pipe; Python must not complain about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    if isinstance(error, ClientError | OSError):
        return _fail(str(error), EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILURE)
    raise error


def _wrong_usage(error: Any) -> int:
    """Prints one line and where to read more; a command without arguments shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return EXIT_USAGE
    path = error.ctx.command_path if error.ctx is not None else "bowstring"
    return _fail(f"{error.format_message().rstrip('.')}; see `{path} --help`", EXIT_USAGE)


def _fail(message: str, code: int) -> int:
    from bowstring.cli.output import print_error

    print_error(" ".join(message.split()))
    return code
