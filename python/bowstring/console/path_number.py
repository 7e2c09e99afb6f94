"""Takes numbers out of paths, of a length that fits the protocol; longer ones are no such page."""

from __future__ import annotations

from starlette.convertors import IntegerConvertor, register_url_convertor

NUMBER = "number"
"""Name of the convertor, for paths such as f"/brokers/{{id:{NUMBER}}}"."""


class PathNumber(IntegerConvertor):
    """A whole number of at most 18 digits. Starlette's `int` takes so many that Python refuses them."""

    regex = "[0-9]{1,18}"


register_url_convertor(NUMBER, PathNumber())
