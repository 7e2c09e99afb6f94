"""Maps distinguished names to names of principals by `ssl.principal.mapping.rules` (KIP-371)."""

import re
from typing import Final, NamedTuple

from bowstring.engine.configs import ConfigError

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLIT: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSE: Final = re.compile(_RULE)
_REPLACED: Final = re.compile(r"\\(.)|\$(\d+)|\$\{(\w+)\}", re.DOTALL)
_CONFIG: Final = "ssl.principal.mapping.rules"


class _Rule(NamedTuple):
    pattern: re.Pattern[str] | None
    replacement: str = ""
    case: str = ""

    def apply(self, name: str) -> str | None:
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        result = self.pattern.sub(self._replaced, name)
        if self.case:
            return result.lower() if self.case == "L" else result.upper()
        return result

    def _replaced(self, found: re.Match[str]) -> str:
        def one(part: re.Match[str]) -> str:
            if part[1] is not None:
                return part[1]
            if part[3] is not None:
                return found[part[3]] or ""
            digits, rest = part[2], ""
            # As in Java, $12 is group 1 and a 2 where there are fewer than 12 groups.
            while int(digits) > found.re.groups and len(digits) > 1:
                digits, rest = digits[:-1], digits[-1] + rest
            if int(digits) > found.re.groups:
                return part[0]
            return (found[int(digits)] or "") + rest

        return _REPLACED.sub(one, self.replacement)


class PrincipalRules:
    """The rules of a listener.

    Args:
        text: DEFAULT, or RULE:pattern/replacement/[LU], separated by commas; the first that matches counts.

    Raises:
        ConfigError: A rule is malformed.
    """

    def __init__(self, text: str) -> None:
        self._rules = [
            rule for found in _SPLIT.finditer(text.strip()) if (rule := _parsed(found[1])) is not None
        ]

    def name_of(self, distinguished_name: str) -> str | None:
        """Returns the principal's name; None when no rule matches."""
        for rule in self._rules:
            name = rule.apply(distinguished_name)
            if name is not None:
                return name
        return None


def _parsed(text: str) -> _Rule | None:
    found = _PARSE.match(text)
    if found is None or found.end() != len(text):
        raise ConfigError(
            f"{_CONFIG}: {text!r} is not a rule; write DEFAULT or RULE:pattern/replacement/ with L or U at "
            "the end"
        )
    if found[1]:
        return _Rule(None)
    if found[2] is None:
        return None  # Kafka ignores empty rules
    try:
        # Java writes (?<name>…) for Python's (?P<name>…).
        pattern = re.compile(re.sub(r"\(\?<(?=[A-Za-z])", "(?P<", found[2]))
    except re.error as error:
        raise ConfigError(f"{_CONFIG}: the pattern of {text!r} is malformed: {error}") from None
    return _Rule(pattern, found[3], found[4])
