"""Loads schemas of drafts 2019-09 and 2020-12, with the meaning that Confluent's registry gives them.

That registry loads them by json-sKema and joins keywords of one schema that are about one kind of value: what
is joined and what stays an allOf depends on the order of keywords in a hash table of Java, here as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema.drafts import Draft, meta_schema
from bowstring.schemas.json_schema.joining import in_hash_order, joined
from bowstring.schemas.json_schema.json_text import write_json
from bowstring.schemas.json_schema.nodes import (
    ArrayRules,
    CombinedRules,
    Node,
    NodeKind,
    NumberRules,
    ObjectRules,
    StringRules,
)
from bowstring.schemas.json_schema.schema_loader import (
    Document,
    Place,
    SchemaLoader,
    boolean_at,
    fault,
    number_at,
    read_references,
    text_at,
    texts_at,
    with_bridged_definitions,
)
from bowstring.schemas.json_schema.uris import has_scheme, resolve

BASE_URI = "mem://input"

_DATA_KEYWORDS = frozenset({"enum", "const"})
_NUMBERS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
}
_MOST_ITEMS = (1 << 31) - 1
_LENGTHS: dict[str, tuple[NodeKind, Callable[[], Any], str]] = {
    "minLength": (NodeKind.STRING, StringRules, "min_length"),
    "maxLength": (NodeKind.STRING, StringRules, "max_length"),
    "minItems": (NodeKind.ARRAY, ArrayRules, "min_items"),
    "maxItems": (NodeKind.ARRAY, ArrayRules, "max_items"),
    "minProperties": (NodeKind.OBJECT, ObjectRules, "min_properties"),
    "maxProperties": (NodeKind.OBJECT, ObjectRules, "max_properties"),
}
_TYPES: dict[str, tuple[NodeKind, Callable[[], Any]]] = {
    "array": (NodeKind.ARRAY, ArrayRules),
    "boolean": (NodeKind.BOOLEAN, lambda: None),
    "integer": (NodeKind.NUMBER, lambda: NumberRules(is_integer=True)),
    "null": (NodeKind.NULL, lambda: None),
    "number": (NodeKind.NUMBER, NumberRules),
    "object": (NodeKind.OBJECT, ObjectRules),
    "string": (NodeKind.STRING, StringRules),
}


class NewerDraftsLoader(SchemaLoader):
    """Loads one schema of draft 2019-09 or 2020-12."""

    def __init__(self, draft: Draft, root: Any, references: Mapping[str, str]) -> None:
        super().__init__()
        self._draft = draft
        self._references = dict(references)
        try:
            resolved = {resolve(BASE_URI, name): text for name, text in references.items()}
        except ValueError:
            raise InvalidSchemaError("the name of a reference is no URI") from None
        self._texts = resolved | self._references
        self._known: dict[str, tuple[Any, Place]] = {}
        self._root = Document(with_bridged_definitions(root), BASE_URI, draft)
        self._combined: list[Node] = []

    def load_root(self) -> Node:
        """Returns the node of the schema.

        Raises:
            InvalidSchemaError: A keyword's value has the wrong type, or a reference leads nowhere.
        """
        self._learn(self._root)
        node = self.load(Place(self._root, BASE_URI))
        for combined in self._combined:
            schemas = combined.rules.schemas
            combined.rules.schemas = [part for each in schemas for part in _without_all_of(each)]
        return node

    def _fill_object(self, node: Node, raw: dict[str, Any], place: Place) -> None:
        place = self._scope(raw, place)
        whole: Node | None = None
        # Only where types are listed does the order decide what is joined.
        keywords = in_hash_order(raw) if isinstance(raw.get("type"), list) else list(raw)
        for keyword in keywords:
            part = self._part(keyword, raw[keyword], raw, place)
            if part is not None:
                whole = joined(whole, part)
        for part in self._last_parts(raw, place):
            whole = joined(whole, part)
        if whole is not None:
            rules = whole.rules
            if isinstance(rules, CombinedRules) and rules.is_generated and rules.criterion == "allOf":
                for part in rules.schemas:
                    part.origin = raw
                if len(rules.schemas) == 1:
                    whole = rules.schemas[0]
                elif not rules.schemas:
                    whole = Node()
            node.become(whole)
        node.title = text_at(raw, "title", place)
        node.description = text_at(raw, "description", place)
        boolean_at(raw, "deprecated", place)
        if raw.get("default") is not None:
            node.default = write_json(raw["default"], is_sorted=True)
        connect_type = raw.get("connect.type")
        node.connect_type = connect_type if isinstance(connect_type, str) else None

    def _last_parts(self, raw: dict[str, Any], place: Place) -> list[Node]:
        """Returns the parts that are joined after all others."""
        parts = []
        if "properties" in raw:
            schemas = self._children(raw["properties"], place.inside("properties"))
            if schemas:
                parts.append(self._object(raw, properties=schemas))
        if "patternProperties" in raw:
            schemas = self._patterns(raw["patternProperties"], place.inside("patternProperties"))
            if schemas:
                parts.append(self._object(raw, patterns=schemas))
        if "unevaluatedItems" in raw:
            child = self._child(raw["unevaluatedItems"], place.inside("unevaluatedItems"))
            parts.append(self._array(raw, unevaluated=child))
        if "unevaluatedProperties" in raw:
            child = self._child(raw["unevaluatedProperties"], place.inside("unevaluatedProperties"))
            parts.append(self._object(raw, unevaluated=child))
        return parts

    def _part(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node | None:
        """Returns what one keyword says; None if that is nothing that is compared."""
        make = _MAKERS.get(keyword)
        if make is not None:
            return make(self, keyword, value, raw, place)
        if keyword in _NUMBERS:
            rules = NumberRules()
            setattr(rules, _NUMBERS[keyword], number_at(raw, keyword, place))
            return self._node(NodeKind.NUMBER, rules, raw)
        if keyword in _LENGTHS:
            kind, make_rules, attribute = _LENGTHS[keyword]
            lengths = make_rules()
            setattr(lengths, attribute, _whole(raw, keyword, place))
            return self._node(kind, lengths, raw)
        return None

    @staticmethod
    def _node(kind: NodeKind, rules: Any, raw: dict[str, Any]) -> Node:
        return Node(kind, rules, part=kind.name)

    def _object(self, raw: dict[str, Any], **rules: Any) -> Node:
        return self._node(NodeKind.OBJECT, ObjectRules(**rules), raw)

    def _array(self, raw: dict[str, Any], **rules: Any) -> Node:
        return self._node(NodeKind.ARRAY, ArrayRules(**rules), raw)

    def _reference(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._node(NodeKind.REFERENCE, self._target(value, place), raw)

    def _type(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        names = [value] if isinstance(value, str) else value
        if not isinstance(names, list):
            raise fault(place.inside("type"), "must be a string or an array", value)
        nodes = []
        for name in names:
            if not isinstance(name, str) or name not in _TYPES:
                raise fault(place.inside("type"), f"has an unknown type: {str(name)[:100]}")
            kind, make = _TYPES[name]
            nodes.append(Node(kind, make(), origin=raw, part=name))
        if isinstance(value, str):
            return nodes[0]
        return self._node(NodeKind.COMBINED, CombinedRules("anyOf", nodes, is_generated=True), raw)

    def _criterion(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        rules = CombinedRules(keyword, self._list(value, place.inside(keyword)))
        node = self._node(NodeKind.COMBINED, rules, raw)
        self._combined.append(node)
        return node

    def _not(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._node(NodeKind.NOT, self._child(value, place.inside("not")), raw)

    def _if(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        for each in ("if", "then", "else"):
            if each in raw:
                self._child(raw[each], place.inside(each))
        return self._node(NodeKind.CONDITIONAL, None, raw)

    def _enum(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._node(NodeKind.ENUM, self._values_at(raw, "enum", place), raw)

    def _const(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._node(NodeKind.CONST, write_json(value, is_sorted=True), raw)

    def _pattern(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._node(NodeKind.STRING, StringRules(pattern=self._pattern_at(raw, keyword, place)), raw)

    def _required(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._object(raw, required=frozenset(texts_at(raw, "required", place)))

    def _additional(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        child = self._child(value, place.inside(keyword))
        if isinstance(value, bool):
            return self._object(raw, has_additional=value)
        return self._object(raw, additional=child)

    def _items(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        child = self._child(value, place.inside("items"))
        prefix = raw.get("prefixItems")
        if isinstance(value, bool):
            return self._array(raw, has_additional=value)
        if isinstance(prefix, list) and prefix:
            return self._array(raw, additional=child)
        return self._array(raw, items=child)

    def _prefix(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._array(raw, prefix=self._list(value, place.inside(keyword)))

    def _contains(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        self._child(value, place.inside("contains"))
        least, most = (raw.get(each) for each in ("minContains", "maxContains"))
        return self._array(
            raw,
            min_contains=1 if least is None else number_at(raw, "minContains", place),
            max_contains=None if most is None else number_at(raw, "maxContains", place),
        )

    def _unique(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._array(raw, is_unique=boolean_at(raw, keyword, place) or False)

    def _names(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        self._child(value, place.inside(keyword))
        return self._object(raw)

    def _needed_properties(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        if not isinstance(value, dict):
            raise fault(place.inside(keyword), "must be an object", value)
        inside = place.inside(keyword)
        needed = {name: set(texts_at(value, name, inside)) for name in value}
        return self._object(raw, needed_properties={name: names for name, names in needed.items() if names})

    def _needed_schemas(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        return self._object(raw, needed_schemas=self._children(value, place.inside(keyword)))

    def _nothing(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node:
        """Returns what json-sKema makes of a keyword without meaning here: an allOf of nothing."""
        text_at(raw, "format", place)
        return self._node(NodeKind.COMBINED, CombinedRules("allOf", [], is_generated=True), raw)

    def _annotation(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> Node | None:
        return self._nothing(keyword, value, raw, place) if boolean_at(raw, keyword, place) else None

    def _definitions(self, keyword: str, value: Any, raw: dict[str, Any], place: Place) -> None:
        self._children(value, place.inside(keyword))

    def _key(self, reference: str, place: Place) -> str:
        name = reference.partition("#")[0]
        is_named = name and (has_scheme(name) or name in self._references)
        return (reference if is_named else resolve(place.base, reference)).removesuffix("#")

    def _find(self, reference: str, place: Place) -> tuple[Any, Place]:
        absolute = self._key(reference, place)
        location, _, fragment = absolute.partition("#")
        if location not in self._known and location not in self._texts:
            # The document has an id, but is registered by another URI.
            other = resolve(place.document.uri, reference).removesuffix("#")
            if other.partition("#")[0] in self._texts:
                absolute = other
                location, _, fragment = other.partition("#")
        if location not in self._known:
            self._load_document(location, place)
        named = self._known.get(absolute)
        if named is not None:
            return named
        if not fragment.startswith("/"):
            raise fault(place.inside("$ref"), f"leads nowhere: {reference[:100]}")
        root, start = self._known[location]
        return self._at_pointer(f"#{fragment}", root, start, place)

    def _load_document(self, location: str, source: Place) -> None:
        """Makes the schemas of a reference or of a meta-schema known."""
        if location in self._texts:
            root = read_references({location: self._texts[location]})[location]
        elif (root := meta_schema(location)) is None:
            action = "register that schema and name it in references"
            kind = "fetches nothing" if has_scheme(location) else "has no such reference"
            raise fault(source.inside("$ref"), f"leads to {location[:100]}; the registry {kind}: {action}")
        if not isinstance(root, dict | bool):
            raise fault(source.inside("$ref"), f"must lead to a schema: {location[:100]}", root)
        self._learn(Document(root, location, self._draft, location))

    def _learn(self, document: Document) -> None:
        """Registers the schemas of a document by their ids and anchors."""
        self._known[document.uri] = (document.root, Place(document, document.uri))
        for raw, place in self._walk(document, _DATA_KEYWORDS):
            base = self._scope(raw, place).base
            if isinstance(raw.get("$id"), str):
                self._known.setdefault(base.removesuffix("#"), (raw, place))
            for keyword in ("$anchor", "$dynamicAnchor"):
                anchor = raw.get(keyword)
                if isinstance(anchor, str):
                    self._known.setdefault(f"{base.partition('#')[0]}#{anchor}", (raw, place))


def _whole(raw: dict[str, Any], keyword: str, place: Place) -> int:
    """Returns a length, at most the largest integer of 32 bits; digits behind the point do not count."""
    length = number_at(raw, keyword, place)
    assert length is not None
    return int(min(max(length, -_MOST_ITEMS), _MOST_ITEMS))


def _without_all_of(node: Node) -> list[Node]:
    """Returns the parts of a schema that is no keyword's allOf; another schema as it is."""
    rules = node.rules
    if isinstance(rules, CombinedRules) and rules.is_generated and rules.criterion == "allOf":
        return rules.schemas
    return [node]


_Make = Callable[[NewerDraftsLoader, str, Any, dict[str, Any], Place], Node | None]
_MAKERS: dict[str, _Make] = {
    "$ref": NewerDraftsLoader._reference,
    "$dynamicRef": NewerDraftsLoader._reference,
    "$defs": NewerDraftsLoader._definitions,
    "type": NewerDraftsLoader._type,
    "allOf": NewerDraftsLoader._criterion,
    "anyOf": NewerDraftsLoader._criterion,
    "oneOf": NewerDraftsLoader._criterion,
    "not": NewerDraftsLoader._not,
    "if": NewerDraftsLoader._if,
    "enum": NewerDraftsLoader._enum,
    "const": NewerDraftsLoader._const,
    "pattern": NewerDraftsLoader._pattern,
    "format": NewerDraftsLoader._nothing,
    "readOnly": NewerDraftsLoader._annotation,
    "writeOnly": NewerDraftsLoader._annotation,
    "required": NewerDraftsLoader._required,
    "additionalProperties": NewerDraftsLoader._additional,
    "propertyNames": NewerDraftsLoader._names,
    "dependentRequired": NewerDraftsLoader._needed_properties,
    "dependentSchemas": NewerDraftsLoader._needed_schemas,
    "items": NewerDraftsLoader._items,
    "prefixItems": NewerDraftsLoader._prefix,
    "contains": NewerDraftsLoader._contains,
    "uniqueItems": NewerDraftsLoader._unique,
}
