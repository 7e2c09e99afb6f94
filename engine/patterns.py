"""Compiles regular expressions that clients send.

Kafka takes RE2's syntax for them (KIP-848, KIP-1152). RE2 matches in time that grows with the text alone,
so no expression holds the control thread up; Python's own engine would.
"""

from collections.abc import Callable

from bowstring.protocol.errors import Errors, KafkaError

_MEMORY_BYTES = 1 << 20


def whole_text(pattern: str, what: str) -> Callable[[str], bool]:
    """Returns whether a pattern matches a whole text, as a function.

    Args:
        pattern: In RE2's syntax.
        what: Names the pattern in the error, such as "Transaction ID pattern".

    Raises:
        KafkaError: INVALID_REGULAR_EXPRESSION: not RE2's syntax, or too large.
    """
    import re2  # few brokers ever need it

    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY_BYTES
    try:
        compiled = re2.compile(pattern.encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error, re2.error) else str(error)
        raise KafkaError(
            Errors.INVALID_REGULAR_EXPRESSION,
            f"{what} `{pattern}` is not a valid regular expression: {reason}.",
        ) from error
    return lambda text: compiled.fullmatch(text.encode(errors="replace")) is not None
