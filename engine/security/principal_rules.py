"""Maps distinguished names to names of principals by `ssl.principal.mapping.rules` (KIP-371)."""

import re
from typing import Final, NamedTuple

from bowstring.engine.configs import ConfigError
from bowstring.engine.security.java_patterns import compiled, filled

_RULE: Final = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?).*?|(.*?)"
_SPLIT: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|$)")
_PARSE: Final = re.compile(_RULE)
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
        result = self.pattern.sub(lambda found: filled(self.replacement, found), name)
        if self.case:
            return result.lower() if self.case == "L" else result.upper()
        return result


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
        pattern = compiled(found[2])
    except re.error as error:
        raise ConfigError(f"{_CONFIG}: the pattern of {text!r} is malformed: {error}") from None
    return _Rule(pattern, found[3], found[4])
