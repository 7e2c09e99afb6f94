"""Shows default values on the page of the Python API, where the source takes them from a table."""

from __future__ import annotations

import inspect
from functools import reduce
from importlib import import_module
from typing import Any, Final

from griffe import Extension

TABLE: Final = "_DEFAULTS["


class Defaults(Extension):  # type: ignore[misc]
    """An extension of Griffe, which reads signatures from the source without running it."""

    def on_function_instance(self, *, func: Any, **_: Any) -> None:
        """Replaces what stands for a default by the default."""
        for parameter in func.parameters:
            if str(parameter.default).startswith(TABLE):
                module = import_module(func.module.path)
                names = func.path.removeprefix(f"{func.module.path}.").split(".")
                signature = inspect.signature(reduce(getattr, names, module))  # type: ignore[arg-type]
                parameter.default = repr(signature.parameters[parameter.name].default)
