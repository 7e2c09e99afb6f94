"""Evaluates expressions over records, such as `value.user.id > 10 and headers["x"] == "1"`.

The text is parsed by Python's `ast` and never run as Python: only the nodes and functions listed here exist,
dotted names are lookups in decoded values, and sizes of texts and numbers are bounded. As in SQL, a missing
value or one of a wrong type is null, and a comparison with null is neither true nor false.
"""

from __future__ import annotations

import ast
import operator
import re
import threading
import warnings
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from bowstring.clients.errors import ConfigError

LENGTH_MAX = 2_000
DEPTH_MAX = 40
CALLS_MAX = 20
TEXT_MAX = 65_536
INTEGER_BITS_MAX = 256
NAMES = ("value", "key", "headers", "partition", "offset", "timestamp")

Evaluate = Callable[[Mapping[str, Any]], Any]

# Filters of warnings belong to the process.
_quiet = threading.Lock()
_LINE_ENDS = re.compile(r"[\r\n\f\v]")
_WORDS = {"true": True, "false": False, "null": None}
_NUMBERS = (int, float, Decimal)
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


class ExpressionError(ConfigError):
    """An expression is invalid; the message names the column.

    Attributes:
        column: of the error, from 1.
    """

    def __init__(self, column: int, message: str):
        super().__init__(f"expression, column {column}: {message}")
        self.column = column


class Expression:
    """A compiled expression.

    Args:
        text: of the expression, at most 2,000 characters.

    Raises:
        ExpressionError: the expression is invalid.

    Examples:
        >>> Expression('value.id > 10 and key == "a"').matches({"value": {"id": 11}, "key": "a"})
        True
    """

    def __init__(self, text: str):
        self.text = text
        self._evaluate = _Compiler(text).compiled()

    def matches(self, names: Mapping[str, Any]) -> bool:
        """Returns whether the expression is true; false and null do not match. Never raises.

        Args:
            names: what the names of the expression stand for; missing ones are null.
        """
        return self._evaluate(names) is True


class _Compiler:
    """Turns an expression into nested functions."""

    def __init__(self, text: str):
        self._text = text
        self._calls = 0

    def compiled(self) -> Evaluate:
        if len(self._text) > LENGTH_MAX:
            raise ExpressionError(LENGTH_MAX + 1, f"it is longer than {LENGTH_MAX:,} characters; shorten it")
        stripped = _LINE_ENDS.sub(" ", self._text.strip())
        if not stripped:
            raise ExpressionError(1, "it is empty; write a condition such as value.id > 10")
        self._shift = len(self._text) - len(self._text.lstrip())
        try:
            with _quiet, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # "\\d" in a pattern
                tree = ast.parse(stripped, mode="eval")
        except SyntaxError as error:
            at_end = not error.offset or (error.lineno or 1) > 1
            column = len(stripped) + 1 if at_end else error.offset or 1
            raise ExpressionError(
                column + self._shift, "it ends too early" if at_end else error.msg
            ) from None
        except (ValueError, RecursionError, MemoryError):
            raise ExpressionError(1, "it is nested too deep, or has characters that are not text") from None
        return self._node(tree.body, 0)

    def _error(self, node: ast.AST, message: str) -> ExpressionError:
        before = self._text.strip().encode(errors="replace")[: getattr(node, "col_offset", 0)]
        return ExpressionError(len(before.decode(errors="replace")) + 1 + self._shift, message)

    def _node(self, node: ast.expr, depth: int) -> Evaluate:
        if depth > DEPTH_MAX:
            raise self._error(node, f"it is nested more than {DEPTH_MAX} deep")
        make = _MAKERS.get(type(node))
        if make is None:
            raise self._error(
                node, f"{type(node).__name__} is not supported; use comparisons, and, or, not, and functions"
            )
        return make(self, node, depth + 1)

    def _constant(self, node: Any, _: int) -> Evaluate:
        constant = node.value
        if constant is not None and not isinstance(constant, (bool, int, float, str)):
            raise self._error(node, "only numbers, texts, true, false and null can be written")
        constant = _bounded(constant)
        return lambda _: constant

    def _name(self, node: Any, _: int) -> Evaluate:
        name = node.id
        if name in _WORDS:
            constant = _WORDS[name]
            return lambda _: constant
        if name not in NAMES:
            raise self._error(node, f"there is no {name!r}; names are {', '.join(NAMES)}")
        return lambda names: names.get(name)

    def _attribute(self, node: Any, depth: int) -> Evaluate:
        of, name = self._node(node.value, depth), node.attr

        def look_up(names: Mapping[str, Any]) -> Any:
            found = of(names)
            return found.get(name) if type(found) is dict else None

        return look_up

    def _subscript(self, node: Any, depth: int) -> Evaluate:
        of, index = self._node(node.value, depth), self._node(node.slice, depth)
        return lambda names: _item(of(names), index(names))

    def _list(self, node: Any, depth: int) -> Evaluate:
        parts = [self._node(each, depth) for each in node.elts]
        return lambda names: [part(names) for part in parts]

    def _bool(self, node: Any, depth: int) -> Evaluate:
        parts = [self._node(each, depth) for each in node.values]
        decides: bool = isinstance(node.op, ast.Or)

        def decide(names: Mapping[str, Any]) -> bool | None:
            unknown = False
            for part in parts:
                found = part(names)
                if found is decides:
                    return bool(found)
                unknown = unknown or type(found) is not bool
            return None if unknown else not decides

        return decide

    def _unary(self, node: Any, depth: int) -> Evaluate:
        of = self._node(node.operand, depth)
        if isinstance(node.op, ast.Not):
            return lambda names: not found if type(found := of(names)) is bool else None
        if not isinstance(node.op, (ast.USub, ast.UAdd)):
            raise self._error(node, "~ is not supported")
        sign = -1 if isinstance(node.op, ast.USub) else 1
        return lambda names: _arithmetic(operator.mul, of(names), sign)

    def _binary(self, node: Any, depth: int) -> Evaluate:
        act = _ARITHMETIC.get(type(node.op))
        if act is None:
            raise self._error(node, "only + - * / // and % calculate")
        left, right = self._node(node.left, depth), self._node(node.right, depth)
        return lambda names: _arithmetic(act, left(names), right(names))

    def _compare(self, node: Any, depth: int) -> Evaluate:
        first = self._node(node.left, depth)
        rest = []
        for op, operand in zip(node.ops, node.comparators, strict=True):
            literal_null = isinstance(operand, ast.Name | ast.Constant) and (
                getattr(operand, "id", "") == "null" or getattr(operand, "value", "") is None
            )
            test = _nullness(op) if literal_null else _comparison(op)
            if test is None:
                what = "null can only be compared by == and !=" if literal_null else "use == instead of is"
                raise self._error(operand, what)
            rest.append((test, self._node(operand, depth)))
        if len(rest) == 1:
            test, second = rest[0]
            return _single(test, first, second)

        def chained(names: Mapping[str, Any]) -> bool | None:
            left, unknown = first(names), False
            for test, operand in rest:
                right = operand(names)
                found = test(left, right)
                if found is False:
                    return False
                unknown, left = unknown or found is None, right
            return None if unknown else True

        return chained

    def _call(self, node: Any, depth: int) -> Evaluate:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name not in FUNCTIONS:
            raise self._error(node, f"functions are {', '.join(FUNCTIONS)}")
        self._calls += 1
        if self._calls > CALLS_MAX:
            raise self._error(node, f"it calls more than {CALLS_MAX} functions")
        count, act = FUNCTIONS[name]
        if node.keywords or len(node.args) != count or any(isinstance(a, ast.Starred) for a in node.args):
            raise self._error(node, f"{name} has {count} argument{'s' if count > 1 else ''}")
        if name == "matches":
            return self._matches(node, depth)
        parts = [self._node(each, depth) for each in node.args]
        if count == 1:
            (only,) = parts
            return lambda names: act(only(names))
        return lambda names: act(*[part(names) for part in parts])

    def _matches(self, node: Any, depth: int) -> Evaluate:
        """Compiles the pattern once, by RE2, which takes linear time."""
        import re2

        pattern = node.args[1]
        if not isinstance(pattern, ast.Constant) or not isinstance(pattern.value, str):
            raise self._error(pattern, 'matches needs a written pattern, such as matches(value.name, "^a")')
        options = re2.Options()
        options.log_errors = False
        try:
            compiled = re2.compile(pattern.value, options)
        except (re2.error, UnicodeError) as error:
            raise self._error(pattern, f"the pattern is invalid: {error}") from None
        of = self._node(node.args[0], depth)

        def search(names: Mapping[str, Any]) -> bool | None:
            text = of(names)
            if not isinstance(text, str):
                return None
            found: bool = compiled.search(text.encode(errors="replace").decode()) is not None
            return found

        return search


_MAKERS: dict[type[ast.expr], Callable[[_Compiler, Any, int], Evaluate]] = {
    ast.Constant: _Compiler._constant,
    ast.Name: _Compiler._name,
    ast.Attribute: _Compiler._attribute,
    ast.Subscript: _Compiler._subscript,
    ast.List: _Compiler._list,
    ast.Tuple: _Compiler._list,
    ast.BoolOp: _Compiler._bool,
    ast.UnaryOp: _Compiler._unary,
    ast.BinOp: _Compiler._binary,
    ast.Compare: _Compiler._compare,
    ast.Call: _Compiler._call,
}


def _is_number(found: Any) -> bool:
    return isinstance(found, _NUMBERS) and not isinstance(found, bool)


def _bounded(found: Any) -> Any:
    """Returns null in place of numbers and texts that are too large to calculate with."""
    if isinstance(found, int) and found.bit_length() > INTEGER_BITS_MAX:
        return None
    if isinstance(found, str) and len(found) > TEXT_MAX:
        return None
    return found


def _item(of: Any, index: Any) -> Any:
    if type(of) is dict:
        return of.get(index) if isinstance(index, (str, int)) else None
    if type(of) is list and type(index) is int and -len(of) <= index < len(of):
        return of[index]
    return None


def _arithmetic(act: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right if act is operator.add and len(left) + len(right) <= TEXT_MAX else None
    if not _is_number(left) or not _is_number(right):
        return None
    left, right = _bounded(left), _bounded(right)
    if left is None or right is None:
        return None
    try:
        if isinstance(left, Decimal):
            left = float(left)
        if isinstance(right, Decimal):
            right = float(right)
        return _bounded(act(left, right))
    except (ArithmeticError, ValueError):
        return None


def _alike(left: Any, right: Any) -> bool:
    """Returns whether two values have an order."""
    return (isinstance(left, str) and isinstance(right, str)) or (_is_number(left) and _is_number(right))


def _equal(left: Any, right: Any) -> bool | None:
    if left is None or right is None or isinstance(left, (dict, list)) or isinstance(right, (dict, list)):
        return None
    if isinstance(left, bool) is not isinstance(right, bool):
        return False
    try:
        return bool(left == right)
    except (ArithmeticError, ValueError):  # a signaling NaN of Decimal
        return None


def _unequal(left: Any, right: Any) -> bool | None:
    found = _equal(left, right)
    return None if found is None else not found


def _within(left: Any, right: Any) -> bool | None:
    if isinstance(right, str):
        return left in right if isinstance(left, str) else None
    if isinstance(right, dict):
        return left in right if isinstance(left, str) else None
    if isinstance(right, list) and left is not None:
        return any(_equal(left, each) for each in right)
    return None


def _not_within(left: Any, right: Any) -> bool | None:
    found = _within(left, right)
    return None if found is None else not found


def _ordered(order: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool | None]:
    def compare(left: Any, right: Any) -> bool | None:
        if not _alike(left, right):
            return None
        try:
            return bool(order(left, right))
        except (ArithmeticError, ValueError):
            return None

    return compare


def _comparison(op: ast.cmpop) -> Callable[[Any, Any], bool | None] | None:
    order = _ORDERS.get(type(op))
    if order is not None:
        return _ordered(order)
    tests: dict[type[ast.cmpop], Callable[[Any, Any], bool | None]] = {
        ast.Eq: _equal,
        ast.NotEq: _unequal,
        ast.In: _within,
        ast.NotIn: _not_within,
    }
    return tests.get(type(op))


def _single(test: Callable[[Any, Any], bool | None], first: Evaluate, second: Evaluate) -> Evaluate:
    return lambda names: test(first(names), second(names))


def _nullness(op: ast.cmpop) -> Callable[[Any, Any], bool | None] | None:
    if isinstance(op, (ast.Eq, ast.Is)):
        return lambda left, _: left is None
    if isinstance(op, (ast.NotEq, ast.IsNot)):
        return lambda left, _: left is not None
    return None


def _of_texts(act: Callable[[str, str], bool]) -> Callable[[Any, Any], bool | None]:
    return lambda left, right: act(left, right) if isinstance(left, str) and isinstance(right, str) else None


def _contains(of: Any, part: Any) -> bool | None:
    return _within(part, of)


def _length(of: Any) -> int | None:
    return len(of) if isinstance(of, (str, list, dict, bytes)) else None


def _number(of: Any) -> int | float | None:
    if _is_number(of):
        return _bounded(of)  # type: ignore[no-any-return]
    if not isinstance(of, str) or len(of) > 100:
        return None
    try:
        return _bounded(int(of))  # type: ignore[no-any-return]
    except ValueError:
        try:
            return float(of)
        except ValueError:
            return None


def _text(of: Any) -> str | None:
    if isinstance(of, bool):
        return str(of).lower()
    if isinstance(of, str):
        return of
    return str(_bounded(of)) if _is_number(of) and _bounded(of) is not None else None


def _time(of: Any) -> int | None:
    """Returns milliseconds since the epoch of an ISO 8601 time; UTC where it names no zone."""
    if not isinstance(of, str) or len(of) > 100:
        return None
    try:
        when = datetime.fromisoformat(of)
        return int((when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None


FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "contains": (2, _contains),
    "startswith": (2, _of_texts(str.startswith)),
    "endswith": (2, _of_texts(str.endswith)),
    "matches": (2, _contains),
    "lower": (1, lambda of: of.lower() if isinstance(of, str) else None),
    "upper": (1, lambda of: of.upper() if isinstance(of, str) else None),
    "length": (1, _length),
    "exists": (1, lambda of: of is not None),
    "number": (1, _number),
    "text": (1, _text),
    "time": (1, _time),
}
