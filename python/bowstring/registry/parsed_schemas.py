"""A bounded cache of parsed schemas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.parsing import parse_schema
from bowstring.schemas.resolved_reference import ResolvedReference

if TYPE_CHECKING:
    from bowstring.schemas.parsed_schema import ParsedSchema

_CHARS_MAX = 8 << 20  # of the texts; what is parsed takes up to ten times as much
_COUNT_MAX = 20_000  # a text in a request, and the canonical one


class ParsedSchemas:
    """Parses schemas, and keeps those that were used last.

    Args:
        count_max: How many are kept.
        chars_max: How long the texts of those kept are together.
    """

    def __init__(self, count_max: int = _COUNT_MAX, chars_max: int = _CHARS_MAX):
        self._count_max = count_max
        self._chars_max = chars_max
        self._chars = 0
        self._kept: OrderedDict[tuple[object, ...], tuple[ParsedSchema, bool]] = OrderedDict()

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
        """
        key = (kind, normalize, text, *references)
        found = self._kept.get(key)
        if found is not None and (found[1] or not is_new):
            self._kept.move_to_end(key)
            return found[0]
        parsed, is_sound = _parsed(kind, text, references, is_new)
        if normalize:
            parsed = parsed.normalized()
        # Stored texts are canonical: the next one to ask is a check against this version.
        self._keep(key, parsed, is_sound)
        if normalize or parsed.canonical != text:
            self._keep((kind, False, parsed.canonical, *references), parsed, is_sound)
        while len(self._kept) > self._count_max or (self._chars > self._chars_max and len(self._kept) > 2):
            oldest, _ = self._kept.popitem(last=False)
            self._chars -= _chars(oldest)
        return parsed

    def _keep(self, key: tuple[object, ...], parsed: ParsedSchema, is_sound: bool) -> None:
        if key not in self._kept:
            self._chars += _chars(key)
        self._kept[key] = parsed, is_sound
        self._kept.move_to_end(key)

    def __len__(self) -> int:
        return len(self._kept)


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


def _chars(key: tuple[object, ...]) -> int:
    return sum(
        len(part) if isinstance(part, str) else len(part.text) if isinstance(part, ResolvedReference) else 0
        for part in key
    )
