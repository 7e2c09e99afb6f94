"""Maps principals of Kerberos to names of users by `sasl.kerberos.principal.to.local.rules`."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from bowstring.engine.configs import ConfigError
from bowstring.engine.security.java_patterns import REFERENCE, compiled, filled

CONFIG: Final = "sasl.kerberos.principal.to.local.rules"

_PRINCIPAL: Final = re.compile(r"(?P<first>[^/@]*)(?:/(?P<second>[^/@]*))?@(?P<realm>[^/@]*)")
_RULE: Final = re.compile(
    r"RULE:\[(?P<components>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<pattern>[^/]*)/(?P<replacement>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER: Final = re.compile(r"\$(\d*)")


class KerberosNameError(Exception):
    """No rule gives a principal the name of a user."""


class _Rule(NamedTuple):
    text: str
    components: int
    format: str
    match: re.Pattern[str] | None
    pattern: re.Pattern[str] | None
    replacement: str
    is_repeated: bool
    case: str

    def apply(self, parts: Sequence[str]) -> str | None:
        """Returns the name for a realm and the components before it; None when the rule does not apply."""
        if len(parts) - 1 != self.components:
            return None
        name = _PARAMETER.sub(lambda found: parts[int(found[1])], self.format)
        if self.match is not None and self.match.fullmatch(name) is None:
            return None
        if self.pattern is not None:
            name = self.pattern.sub(
                lambda found: filled(self.replacement, found), name, count=0 if self.is_repeated else 1
            )
        _check_simple(name, self.text)
        if self.case:
            return name.lower() if self.case == "L" else name.upper()
        return name


class KerberosRules:
    """The rules of a listener. The first that applies counts.

    Args:
        rules: DEFAULT, or RULE:[COMPONENTS:FORMAT](MATCH)s/PATTERN/REPLACEMENT/g with /L or /U at the end.
        default_realm: For DEFAULT, which takes the first component of this realm's principals.

    Raises:
        ConfigError: A rule is malformed.
    """

    def __init__(self, rules: Sequence[str], default_realm: str) -> None:
        self._rules = [None if each == "DEFAULT" else _parsed(each) for each in rules]
        self._default_realm = default_realm

    def name_of(self, principal: str) -> str:
        """Returns the user's name of a principal such as alice@EXAMPLE.COM or kafka/host@EXAMPLE.COM.

        Raises:
            KerberosNameError: No rule applies, or the name that a rule makes has a slash or an at sign.
        """
        found = _PRINCIPAL.fullmatch(principal)
        # A backslash hides a slash or an at sign inside a component: such a name could pass for another.
        if found is None or "\\" in principal:
            raise KerberosNameError(
                f"the principal {principal} is malformed, or has more than two components"
            )
        parts = [found["realm"], found["first"]]
        if found["second"] is not None:
            parts.append(found["second"])
        for rule in self._rules:
            name = self._by_default(parts) if rule is None else rule.apply(parts)
            if name is not None:
                if not name:
                    raise KerberosNameError(f"a rule of {CONFIG} makes an empty name of {principal}")
                return name
        raise KerberosNameError(f"no rule of {CONFIG} applies to {principal}")

    def _by_default(self, parts: Sequence[str]) -> str | None:
        return parts[1] if parts[0] == self._default_realm else None


def _check_simple(name: str, rule: str) -> None:
    if "/" in name or "@" in name:
        raise KerberosNameError(f"the rule {rule} makes the name {name}, which has a slash or an at sign")


def _parsed(text: str) -> _Rule:
    found = _RULE.fullmatch(text)
    if found is None:
        raise ConfigError(
            f"{CONFIG}: {text!r} is not a rule; write DEFAULT, or for example "
            "RULE:[2:$1@$0](admin@EXAMPLE\\.COM)s/@.*// with /L or /U at the end"
        )
    components = int(found["components"])
    for number in _PARAMETER.findall(found["format"]):
        if not number or int(number) > components:
            raise ConfigError(
                f"{CONFIG}: ${number} of {text!r} is not there; $0 is the realm, and "
                f"$1 to ${components} are the components"
            )
    try:
        match = None if found["match"] is None else compiled(found["match"])
        pattern = None if found["pattern"] is None else compiled(found["pattern"])
    except re.error as error:
        raise ConfigError(f"{CONFIG}: a pattern of {text!r} is malformed: {error}") from None
    replacement = found["replacement"] or ""
    if pattern is not None:
        _check_groups(text, pattern, replacement)
    return _Rule(
        *(
            text,
            components,
            found["format"],
            match,
            pattern,
            replacement,
            bool(found["all"]),
            found["case"] or "",
        )
    )


def _check_groups(text: str, pattern: re.Pattern[str], replacement: str) -> None:
    for found in REFERENCE.finditer(replacement):
        name, number = found[3], found[2]
        if (name is not None and name not in pattern.groupindex) or (
            number is not None and int(number[0]) > pattern.groups
        ):
            raise ConfigError(
                f"{CONFIG}: {found[0]} of {text!r} names a group that its pattern does not have"
            )
