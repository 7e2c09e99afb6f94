"""Writes numbers of options as Confluent's normal form has them, which is Java's DecimalFormat."""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal

_DECIMAL = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]-?[0-9]{1,3})?")
_INTEGER = re.compile(r"(-?)(0[xX])?([0-9A-Fa-f]+)")
_DIGITS_MAX = 100
_CONTEXT = Context(prec=1000)
_THOUSANDTH = Decimal("0.001")
# From here on a double has no decimals.
_WHOLE_FROM = 2.0**53


def normal_number(text: str) -> str:
    """Returns a number in its normal form; the text itself if it is not one, such as -inf."""
    if len(text) > _DIGITS_MAX:
        return text
    whole = _INTEGER.fullmatch(text)
    if whole is not None and (number := _whole(*whole.groups())) is not None:
        return str(number)
    number_text = text[:-1] if (has_suffix := text[-1:] in tuple("fFdD")) else text
    if not _DECIMAL.fullmatch(number_text) or (whole is not None and not has_suffix):
        return text
    return _with_three_decimals(number_text, is_float=text[-1:] in tuple("fF"))


def _whole(sign: str, prefix: str | None, digits: str) -> int | None:
    """Returns an integer: hexadecimal with 0x before it, octal with 0 before it."""
    try:
        base = 16 if prefix else 8 if digits[0] == "0" and len(digits) > 1 else 10
        number = int(digits, base)
    except ValueError:
        return None
    return -number if sign else number


def _with_three_decimals(text: str, *, is_float: bool) -> str:
    exact = Decimal(text)
    double = float(text)
    if not is_float and (_is_single(double) if abs(double) < 3.4e38 else False):
        is_float = True
    if is_float and abs(double) < 3.4e38:
        double = _single(double)
        exact = Decimal(repr(double))
    elif Decimal(repr(double)) != exact:
        # Java reads what a double does not hold as a BigDecimal.
        return _plain(exact.quantize(_THOUSANDTH, ROUND_HALF_EVEN, _CONTEXT))
    if abs(double) < _WHOLE_FROM:
        exact = Decimal(double).quantize(_THOUSANDTH, ROUND_HALF_EVEN, _CONTEXT)
    return _plain(exact)


def _single(number: float) -> float:
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


def _is_single(number: float) -> bool:
    """Whether the shortest decimals of a number as a float and as a double are the same."""
    single = _single(number)
    shortest = next(
        f"{single:.{digits}e}" for digits in range(9) if _single(float(f"{single:.{digits}e}")) == single
    )
    return float(shortest) == number


def _plain(number: Decimal) -> str:
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
