"""Hides the secrets of connectors in their configs: shows what is known to be harmless, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping

from bowstring.clients.errors import ConfigError
from bowstring.console.connect.shown_values import (
    HIDDEN,
    HOSTS,
    MARKED,
    looks_random,
    shown_address,
    shown_text,
)

LONG = 64 << 10
"""Longer values are not shown at all."""
NAMES_MAX = 20
"""That an error names."""
CLASS = "connector.class"
VERSION = "connector.plugin.version"
_NAME = re.compile(
    r"pass|pwd|secret|credential|token|jaas|private|auth(?!ors?\b)|key[._-]?(?:file|content|data|json|pem)"
    r"|(?:api|access|account|shared|signing|master|encryption|license)[._-]?key|user[._-]?info|role[._-]?id"
    r"|cookie|webhook|license|headers?$|keys?$|(?:^|[._-])pw(?:$|[._-])|(?:^|[._-])(?:pin|otp|salt|sas|sig|signature|login|session|dsn)$",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{[A-Za-z][\w.-]{0,60}:[\w./:\\ -]{1,300}\}")
_BOOLEAN = re.compile(r"true|false", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d{1,19}(?:\.\d{1,10})?")
_NUMBERS = ("INT", "SHORT", "LONG", "DOUBLE")
_TEXTS = ("STRING", "LIST", "CLASS", "BOOLEAN", *_NUMBERS)
_UNIT = re.compile(r"(?:^|[._-])(?:ms|bytes|seconds|size|length|count|max|min|retries|limit|port)$")
_CLASS_NAME = re.compile(r"(?:[a-z][a-z0-9_]{0,60}\.){1,20}[A-Z][\w$]{0,100}")
_HOST_NAME = re.compile(r"(?:servers?|hosts?|hostnames?|brokers?|address(?:es)?|endpoints?|points)$")

_NAMES = r"[A-Za-z0-9._-]{1,249}(?: ?, ?[A-Za-z0-9._-]{1,249})*"
_WORDS = r"[A-Za-z0-9._-]{1,60}"
_PATTERN = r"[\w .,:'/*+?\[\]()|^$\\{}-]{1,2000}"
_FIELDS = r"[\w.$-]{1,100}(?::[\w.$-]{1,100})?(?: ?, ?[\w.$-]{1,100}(?::[\w.$-]{1,100})?)*"
FRAMEWORK = [
    (re.compile(names), re.compile(values))
    for names, values in (
        (r"tasks\.max|tasks\.max\.enforce", r"\d{1,10}|true|false"),
        (r"topics?|topic\.prefix|transforms|predicates|topic\.creation\.groups", _NAMES),
        (r"transforms\.[^.]+\.predicate|errors\.deadletterqueue\.topic\.name", _NAMES),
        (r"topics\.regex", _PATTERN),
        (r"(?:key|value|header)\.converter|(?:transforms|predicates)\.[^.]+\.type", r"[\w.$]{1,300}"),
        (r"(?:key|value|header)\.converter\.schemas\.enable|transforms\.[^.]+\.negate", r"true|false"),
        (r"errors\.(?:tolerance|retry\.timeout|retry\.delay\.max\.ms|log\.enable)", _WORDS),
        (r"errors\.log\.include\.messages|errors\.deadletterqueue\.context\.headers\.enable", "true|false"),
        (r"errors\.deadletterqueue\.topic\.replication\.factor", r"-?\d{1,5}"),
        (r"config\.action\.reload|exactly\.once\.support|transaction\.boundary(?:\.interval\.ms)?", _WORDS),
        (r"(?:connector|(?:key|value|header)\.converter)\.plugin\.version", r"[\w.,()\[\] -]{1,60}"),
        (r"topic\.creation\.[\w-]+\.(?:replication\.factor|partitions)", r"-?\d{1,9}"),
        (r"topic\.creation\.[\w-]+\.(?:include|exclude)", _PATTERN),
        (r"topic\.creation\.[\w-]+\.(?:cleanup\.policy|compression\.type|[a-z.]+\.(?:ms|bytes))", _WORDS),
        (r"(?:producer|consumer|admin)\.override\.bootstrap\.servers", HOSTS.pattern),
        (
            r"(?:producer|consumer|admin)\.override\.(?:acks|retries|compression\.type|security\.protocol"
            r"|sasl\.mechanism|client\.id|group\.id|auto\.offset\.reset|isolation\.level|enable\.idempotence"
            r"|buffer\.memory|[a-z.]{1,50}\.(?:ms|bytes|size|records|connection))",
            _WORDS,
        ),
        (r"(?:transforms|predicates)\.[^.]+\.(?:fields?|include|exclude|renames|spec)", _FIELDS),
        (
            r"transforms\.[^.]+\.(?:topic|timestamp|offset|partition)\.field|transforms\.[^.]+\.operation",
            _FIELDS,
        ),
        (
            r"transforms\.[^.]+\.(?:regex|replacement|(?:topic|timestamp)\.format|format|target\.type)",
            _PATTERN,
        ),
        (r"predicates\.[^.]+\.pattern", _PATTERN),
    )
]
"""Names of Kafka Connect's own that have no secrets, with what their values look like."""


def shown_value(name: str, value: str, types: Mapping[str, str] | None) -> str:
    """Returns a value of a config as it may be shown: whole, with HIDDEN in it, or HIDDEN.

    Args:
        name: of the config.
        value: a reference to a config provider (`${file:/secrets:password}`) is no secret.
        types: of configs, as the plugin declares them; None if they are not known: only configs of
            Connect itself are shown.
    """
    kind = (types or {}).get(name, "").upper()
    if not value or name in ("name", CLASS):
        return value
    if len(value) <= LONG and _REFERENCE.fullmatch(value.strip()):
        return value
    if len(value) > LONG or kind == "PASSWORD":
        return HIDDEN
    for names, values in FRAMEWORK:
        if names.fullmatch(name):
            return value if values.fullmatch(value) and not _is_doubtful(values, value) else HIDDEN
    return HIDDEN if types is None else _shown_of_type(name, value, kind)


def _is_doubtful(values: re.Pattern[str], value: str) -> bool:
    if values.pattern not in (_PATTERN, _FIELDS):
        return False
    return "://" in value or MARKED.search(value) is not None or looks_random(value)


def _shown_of_type(name: str, value: str, kind: str) -> str:
    is_number, is_boolean = _NUMBER.fullmatch(value), _BOOLEAN.fullmatch(value)
    if (
        (is_boolean and kind == "BOOLEAN")
        or (is_number and kind in _NUMBERS and _UNIT.search(name))
        or (kind == "CLASS" and _CLASS_NAME.fullmatch(value))
    ):
        return value
    if _NAME.search(name) or (kind and kind not in _TEXTS):
        return HIDDEN
    if is_boolean or (is_number and (kind or _UNIT.search(name))):
        return value
    if kind and _HOST_NAME.search(name) and HOSTS.fullmatch(value) and not looks_random(value):
        return value
    return shown_text(value) if kind else shown_address(value)


def masked(config: Mapping[str, str], types: Mapping[str, str] | None) -> dict[str, str]:
    """Returns a config as it may be shown, by name."""
    return {name: shown_value(name, value, types) for name, value in sorted(config.items())}


def unmasked(
    given: Mapping[str, str], held: Mapping[str, str], types: Mapping[str, str] | None
) -> dict[str, str]:
    """Returns a config that was shown masked and sent back, with the secrets that were left hidden.

    Nothing goes over to another plugin: it may show what this one hides.

    Raises:
        ConfigError: a value has HIDDEN in it that stands for nothing.
    """
    stays = all(given.get(each) == held.get(each) for each in (CLASS, VERSION))
    found = dict(given)
    for name, value in given.items():
        if not stays or name not in held or HIDDEN not in value:
            continue
        if value in (HIDDEN, shown_address(held[name]), shown_value(name, held[name], types)):
            found[name] = held[name]
    wrong = _left_hidden(found)
    if wrong and held and not stays:
        raise ConfigError(f"the class changes, and {HIDDEN} stands in {wrong}: type the whole values again")
    if wrong:
        raise ConfigError(
            f"{HIDDEN} stands in {wrong}: type the whole value. Only what is sent back as it was shown, "
            "under its name, stays as it was"
        )
    return found


def _left_hidden(config: Mapping[str, str]) -> str:
    """Returns the names of configs that have HIDDEN in them, as text for an error; empty for none."""
    names = sorted(name for name, value in config.items() if HIDDEN in value)
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more
