"""Runs the command `bowstring`. `serve` and `console` start directly, without loading the rest of the CLI."""

import os
import sys


def main() -> None:
    """Runs the command line."""
    if sys.argv[1:2] == ["serve"]:
        # Everything loaded now stays, and collecting garbage in it takes a tenth of the start time. serve.run
        # turns the collector on again.
        import gc

        gc.disable()
        from bowstring.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] == ["console"]:
        from bowstring.console.main import main as console

        status = console(sys.argv[2:])
        sys.stdout.flush()
        sys.stderr.flush()
        # At once: threads may still wait for a cluster that does not answer.
        os._exit(status)
    from bowstring.cli import main as cli

    cli()


if __name__ == "__main__":
    main()
