"""Ends commands: the exit code, and the one line on standard error, of each exception."""

from __future__ import annotations

import os
import sys
from typing import Any

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as in shells


def code_of(error: Exception) -> int:
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
