"""Runs the command `bowstring`. `serve`, and programs over the clients, start without the rest of the CLI."""

import os
import sys

from bowstring.distribution import IS_CLIENT_ONLY, not_in_client

# Modules with `main(arguments)` by the commands that they are.
PROGRAMS = {
    "console": "bowstring.console.main",
    "registry": "bowstring.registry.program.main",
    "rest": "bowstring.rest.main",
}


def main() -> None:
    """Runs the command line."""
    if IS_CLIENT_ONLY:
        sys.exit(f"bowstring: {not_in_client('the command line')}")
    # Help looks as that of all commands.
    is_help = bool({"-h", "--help"} & {*sys.argv[2:]})
    if sys.argv[1:2] == ["serve"] and not is_help:
        # Everything loaded now stays, and collecting garbage in it takes a tenth of the start time. serve.run
        # turns the collector on again.
        import gc

        gc.disable()
        from bowstring.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] and sys.argv[1] in PROGRAMS and not is_help:
        from importlib import import_module

        status = import_module(PROGRAMS[sys.argv[1]]).main(sys.argv[2:])
        sys.stdout.flush()
        sys.stderr.flush()
        # At once: threads may still wait for a cluster that does not answer.
        os._exit(status)
    from bowstring.cli import main as cli

    cli()


if __name__ == "__main__":
    main()
