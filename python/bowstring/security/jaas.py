"""Reads JAAS lines such as the value of `sasl.jaas.config`.

A line names a login module, a flag and options, and ends with a semicolon:
`org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="…";`
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)'
    | (?P<sign>[=;]) | (?P<word>[^\s"';=]+)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\([0-3][0-7]{2}|[0-7]{1,2}|.)", re.DOTALL)
_LETTERS: Final = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}


class JaasError(ValueError):
    """A JAAS line is malformed. The message does not show the values of options."""


class Login:
    """One login module of a JAAS line. Its representation does not show the options' values.

    Attributes:
        module: The Java class, such as ``org.apache.kafka.common.security.scram.ScramLoginModule``.
        options: Its options; later ones replace earlier ones of the same name.
    """

    __slots__ = ("module", "options")

    def __init__(self, module: str, options: Mapping[str, str]) -> None:
        self.module = module
        self.options = dict(options)

    def __repr__(self) -> str:
        return f"Login({self.module}, options: {', '.join(self.options) or 'none'})"

    @property
    def module_name(self) -> str:
        """The class without its Java package, such as ``ScramLoginModule``."""
        return self.module.rpartition(".")[2]


def parse_jaas(text: str) -> list[Login]:
    """Returns the login modules of JAAS lines, in their order.

    Raises:
        JaasError: The text is malformed.
    """
    logins = []
    tokens = _tokens(text)
    for kind, module in tokens:
        if kind != "word":
            raise JaasError(f"a login module's class is missing before {_shown(kind, module)}")
        logins.append(_login(module, tokens))
    if not logins:
        raise JaasError(
            'there is no login module; write CLASS required OPTION="VALUE"; with the semicolon at the end'
        )
    return logins


def parse_login(text: str) -> Login:
    """Returns the only login module of a JAAS line, as `sasl.jaas.config` has it.

    Raises:
        JaasError: The text is malformed, or has several modules.
    """
    logins = parse_jaas(text)
    if len(logins) > 1:
        raise JaasError(f"there are {len(logins)} login modules; one is allowed")
    return logins[0]


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise JaasError(f"a quotation mark at character {at + 1} is not closed")
        at = found.end()
        for kind in ("double", "single", "sign", "word"):
            value = found[kind]
            if value is not None:
                quoted = kind in ("double", "single")
                yield "quoted" if quoted else kind, _ESCAPE.sub(_unescaped, value) if quoted else value


def _unescaped(found: re.Match[str]) -> str:
    code = found[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _LETTERS.get(code, code)


def _login(module: str, tokens: Iterator[tuple[str, str]]) -> Login:
    kind, flag = next(tokens, ("end", ""))
    if kind != "word" or flag.lower() not in _FLAGS:
        raise JaasError(f"{module} has no control flag; write {module} required …;")
    options: dict[str, str] = {}
    while True:
        kind, name = next(tokens, ("end", ""))
        if (kind, name) == ("sign", ";"):
            return Login(module, options)
        if kind == "end":
            raise JaasError(f"the options of {module} do not end with a semicolon")
        if kind == "sign":
            raise JaasError(f"an option of {module} has no name before {name}")
        if next(tokens, None) != ("sign", "="):
            raise JaasError(
                f'an option of {module} has no value; write NAME="VALUE", and quote values that have spaces'
            )
        kind, value = next(tokens, ("end", ""))
        if kind not in ("quoted", "word"):
            raise JaasError(f"the option {name} of {module} has no value")
        options[name] = value


def _shown(kind: str, value: str) -> str:
    return value if kind == "sign" else "a quoted text"
