"""The command line. `main` is what `bowstring` and `python -m bowstring` run."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

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
    from bowstring.clients.errors import ClientError, ConfigError

    try:
        app(args=list(arguments) if arguments is not None else None, prog_name="bowstring")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else EXIT_FAILURE
    except ConfigError as error:
        return _fail(str(error), EXIT_USAGE)
    except (ClientError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            # Whoever read our output has seen enough; Python must not complain about it when it ends.
            sys.stdout = None
            return EXIT_FAILURE
        return _fail(str(error), EXIT_FAILURE)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return 0


def _fail(message: str, code: int) -> int:
    from bowstring.cli.output import print_error

    print_error(" ".join(message.split()))
    return code
