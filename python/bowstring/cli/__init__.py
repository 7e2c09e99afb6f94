"""The command line. `main` is what `bowstring` and `python -m bowstring` run."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells have it


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Runs one command and ends the process with its exit code."""
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; the exit code is 0 when it did what was asked, 1 when it failed, 2 for wrong usage.

    Errors are one line on standard error.
    """
    from bowstring.cli.app import app

    try:
        given = list(arguments) if arguments is not None else None
        ended = app(args=given, prog_name="bowstring", standalone_mode=False)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except Exception as error:
        return _ended_by(error)
    return ended if isinstance(ended, int) else 0


def _ended_by(error: Exception) -> int:
    """Exit code of a command that raised; a bug is raised on."""
    import typer

    from bowstring.clients.errors import ClientError, ConfigError

    # typer has a copy of click inside or uses an installed one: its UsageError is found through BadParameter.
    if isinstance(error, typer.BadParameter.__mro__[1]):
        return _wrong_usage(error)
    if isinstance(error, typer.Abort):
        return EXIT_INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # Whoever read our output has seen enough; Python must not complain about it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILURE
    if isinstance(error, ClientError | OSError):
        return _fail(str(error), EXIT_USAGE if isinstance(error, ConfigError) else EXIT_FAILURE)
    raise error


def _wrong_usage(error: Any) -> int:
    """One line, and where to read more; a command without anything shows its help."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return EXIT_USAGE
    path = error.ctx.command_path if error.ctx is not None else "bowstring"
    return _fail(f"{error.format_message().rstrip('.')}; `{path} --help` tells more", EXIT_USAGE)


def _fail(message: str, code: int) -> int:
    from bowstring.cli.output import print_error

    print_error(" ".join(message.split()))
    return code
