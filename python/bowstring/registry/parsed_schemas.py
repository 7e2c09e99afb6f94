"""A bounded cache of parsed schemas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from bowstring.registry.schema_work import Allowance, Deferred
from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.resolved_reference import ResolvedReference

if TYPE_CHECKING:
    from bowstring.schemas.parsed_schema import ParsedSchema

Outcome: TypeAlias = "tuple[ParsedSchema, bool] | InvalidSchemaError"

_CHARS_MAX = 8 << 20  # of the texts; what is parsed takes up to ten times as much
_COUNT_MAX = 20_000  # a text in a request, and the canonical one


class Key(NamedTuple):
    """What a schema is parsed from."""

    kind: str
    normalize: bool
    text: str
    references: tuple[ResolvedReference, ...]


class ParsedSchemas:
    """Parses schemas, and keeps those that were used last.

    Args:
        count_max: How many are kept.
        chars_max: How long the texts of those kept are together.

    Attributes:
        allowance: Of the request whose operation runs now; None: everything is parsed at once.
    """

    def __init__(self, count_max: int = _COUNT_MAX, chars_max: int = _CHARS_MAX):
        self._count_max = count_max
        self._chars_max = chars_max
        self._chars = 0
        self.allowance: Allowance | None = None
        self._kept: OrderedDict[Key, tuple[ParsedSchema, bool]] = OrderedDict()

    def parse(
        self,
        kind: str,
        text: str,
        references: Sequence[ResolvedReference] = (),
        *,
        is_new: bool = True,
        normalize: bool = False,
    ) -> ParsedSchema:
        """Parses a schema.

        Args:
            references: All that it needs, each after what it needs itself.
            is_new: Whether rules hold that schemas of earlier days may break.
            normalize: Whether to give the normal form.

        Raises:
            InvalidSchemaError: `text` is no schema of this kind.
            Deferred: It is too long for what the request may do now.
        """
        key = Key(kind, normalize, text, tuple(references))
        found = self._kept.get(key)
        if found is not None and (found[1] or not is_new):
            self._kept.move_to_end(key)
            return found[0]
        outcome = self._outcome(key, is_new)
        if isinstance(outcome, InvalidSchemaError):
            raise outcome
        parsed, is_sound = outcome
        # Stored texts are canonical: the next one to ask is a check against this version.
        self._keep(key, parsed, is_sound)
        if normalize or parsed.canonical != text:
            self._keep(key._replace(normalize=False, text=parsed.canonical), parsed, is_sound)
        while len(self._kept) > self._count_max or (self._chars > self._chars_max and len(self._kept) > 2):
            oldest, _ = self._kept.popitem(last=False)
            self._chars -= _chars(oldest)
        return parsed

    def _outcome(self, key: Key, is_new: bool) -> Outcome:
        kind, normalize, text, references = key
        allowance = self.allowance
        if allowance is None:
            return parse_outcome(kind, text, references, is_new=is_new, normalize=normalize)
        found: Outcome | None = allowance.results.get((key, is_new))
        if found is None:
            if not allowance.takes(_chars(key)):
                raise Deferred(
                    lambda _: {
                        (key, is_new): parse_outcome(
                            kind, text, references, is_new=is_new, normalize=normalize
                        )
                    }
                )
            found = parse_outcome(kind, text, references, is_new=is_new, normalize=normalize)
            allowance.results[key, is_new] = found
        return found

    def _keep(self, key: Key, parsed: ParsedSchema, is_sound: bool) -> None:
        if key not in self._kept:
            self._chars += _chars(key)
        self._kept[key] = parsed, is_sound
        self._kept.move_to_end(key)

    def __len__(self) -> int:
        return len(self._kept)


def parse_outcome(
    kind: str,
    text: str,
    references: Sequence[ResolvedReference] = (),
    *,
    is_new: bool = False,
    normalize: bool = False,
) -> Outcome:
    """A schema and whether it keeps the rules for new ones, or why it is none. In any thread."""
    try:
        parsed, is_sound = _parsed(kind, text, references, is_new)
        return parsed.normalized() if normalize else parsed, is_sound
    except InvalidSchemaError as error:
        return error


def _parsed(
    kind: str, text: str, references: Sequence[ResolvedReference], is_new: bool
) -> tuple[ParsedSchema, bool]:
    """The schema, which is the same with and without the rules for new ones, and whether it keeps them."""
    try:
        return parse_schema(kind, text, references), True
    except InvalidSchemaError:
        if is_new:
            raise
    return parse_schema(kind, text, references, is_new=False), False


def _chars(key: Key) -> int:
    return len(key.text) + sum(len(each.text) for each in key.references)
