"""Writes numbers of options as Confluent's normal form has them, which is Java's DecimalFormat."""

from __future__ import annotations

import re
import struct
from decimal import ROUND_HALF_EVEN, Context, Decimal
from math import inf, isinf

_DECIMAL = re.compile(r"-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]-?[0-9]{1,3})?")
_INTEGER = re.compile(r"(-?)(?:0[xX]([0-9A-Fa-f]+)|([0-9]+))")
_DIGITS = re.compile(r"-*[0-9]+")
_DIGITS_MAX = 100
_CONTEXT = Context(prec=1200)
_THOUSANDTH = Decimal("0.001")
_SINGLE_MAX = 3.4028234663852886e38


def normal_number(text: str) -> str:
    """Returns a number in its normal form; the text itself if it is not one, such as -inf."""
    if len(text) > _DIGITS_MAX:
        return text
    if (whole := _INTEGER.fullmatch(text)) is not None:
        sign, hexadecimal, digits = whole.groups()
        value = _whole(hexadecimal, digits)
        return text if value is None else str(-value if sign else value)
    number, suffix = (text[:-1], text[-1].lower()) if text[-1:] in tuple("fFdDlL") else (text, "")
    if suffix == "l":
        return number if _INTEGER.fullmatch(number) and _DIGITS.fullmatch(number) else text
    return _with_three_decimals(number, suffix) if _DECIMAL.fullmatch(number) else text


def _whole(hexadecimal: str | None, digits: str) -> int | None:
    """Returns an integer: octal with 0 before it; None of 08, which is none."""
    if hexadecimal:
        return int(hexadecimal, 16)
    try:
        return int(digits, 8 if digits[0] == "0" and len(digits) > 1 else 10)
    except ValueError:
        return None


def _with_three_decimals(text: str, suffix: str) -> str:
    """Returns a number as Java reads and writes it: as a float, as a double, or as it stands.

    Args:
        text: digits with a point or an exponent, or both.
        suffix: "f", "d" or "".
    """
    double = float(text)
    fits_single = abs(double) <= _SINGLE_MAX
    if fits_single and (suffix == "f" or (not suffix and _is_single(double))):
        double = _single(double)
    elif isinf(double) or (not suffix and Decimal(repr(double)) != Decimal(text)):
        return _plain(_rounded(Decimal(text)))
    shortest = Decimal(repr(double))
    is_tie = shortest.as_tuple().exponent == -4 and shortest.as_tuple().digits[-1] == 5
    return _plain(_rounded(Decimal(double) if is_tie else shortest))


def _rounded(number: Decimal) -> Decimal:
    return number.quantize(_THOUSANDTH, ROUND_HALF_EVEN, _CONTEXT)


def _single(number: float) -> float:
    try:
        found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    except OverflowError:
        return inf
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
