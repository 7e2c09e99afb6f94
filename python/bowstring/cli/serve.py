"""Shows `bowstring serve` in help, completion and the reference: the options of bowstring.serve_options.

`bowstring serve` runs bowstring.serve directly and does not load the CLI, unless it is asked for help.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, Literal

import typer

from bowstring.serve_options import DESCRIPTION, OPTIONS, ServeOption


def serve(**given: Any) -> None:
    """Runs a broker."""
    from bowstring.serve import main

    arguments: list[str] = []
    for option in OPTIONS:
        value = given[option.name]
        if option.is_flag:
            arguments += [option.flag] if value else []
        else:
            values = value if option.repeats else [] if value is None else [value]
            arguments += [part for each in values for part in (option.flag, str(each))]
    raise typer.Exit(main(arguments))


def _parameter(option: ServeOption) -> inspect.Parameter:
    kind: Any = Literal[option.choices] if option.choices else option.kind
    annotation = bool if option.is_flag else list[kind] if option.repeats else kind | None
    metavar = f"[{option.metavar}]" if option.bare is not None else option.metavar
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=False if option.is_flag else [] if option.repeats else None,
        annotation=Annotated[
            annotation, typer.Option(option.flag, metavar=metavar or None, help=option.help)
        ],
    )


serve.__doc__ = DESCRIPTION
_PARAMETERS = [_parameter(option) for option in OPTIONS]
serve.__signature__ = inspect.Signature(_PARAMETERS)  # type: ignore[attr-defined]
serve.__annotations__ = {each.name: each.annotation for each in _PARAMETERS}
