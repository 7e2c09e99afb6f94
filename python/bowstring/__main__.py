"""The command `bowstring`. `serve` goes straight to the broker: it loads nothing of the rest of the CLI."""

import sys


def main() -> None:
    """Runs the command line."""
    if sys.argv[1:2] == ["serve"]:
        # What is loaded now stays; looking for garbage in it is a tenth of the start. serve.run takes it up.
        import gc

        gc.disable()
        from bowstring.serve import main as serve

        sys.exit(serve(sys.argv[2:]))
    from bowstring.cli import main as cli

    cli()


if __name__ == "__main__":
    main()
