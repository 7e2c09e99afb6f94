"""Loads schemas of drafts 4, 6 and 7, with the meaning that everit-json-schema gives them.

Confluent's registry compares what that library loads; two schemas that are equal to it are equal here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from bowstring.schemas.errors import InvalidSchemaError
from bowstring.schemas.json_schema.drafts import Draft, draft_of, meta_schema
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
    integer_at,
    number_at,
    read_references,
    text_at,
    texts_at,
    with_bridged_definitions,
)
from bowstring.schemas.json_schema.uris import has_scheme, resolve

_NUMBER_KEYWORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_STRING_KEYWORDS = ("minLength", "maxLength", "pattern", "format")
_OBJECT_KEYWORDS = (
    *("properties", "required", "minProperties", "maxProperties"),
    *("dependencies", "patternProperties", "additionalProperties"),
)
_ARRAY_KEYWORDS = ("items", "additionalItems", "minItems", "maxItems", "uniqueItems")
_CONDITIONAL_KEYWORDS = ("if", "then", "else")
_NOWHERE: frozenset[str] = frozenset()


class OlderDraftsLoader(SchemaLoader):
    """Loads one schema of draft 4, 6 or 7."""

    def __init__(self, draft: Draft, root: Any, references: Mapping[str, str]) -> None:
        super().__init__()
        self._root = Document(with_bridged_definitions(root), "", draft)
        self._ids: dict[int, dict[str, tuple[Any, Place]]] = {}
        own = root.get(draft.id_keyword)
        base = own if isinstance(own, str) else ""
        try:
            self._uris = {name: resolve(base, name) for name in references}
        except ValueError:
            raise InvalidSchemaError(f"#/{draft.id_keyword} or the name of a reference is no URI") from None
        self._texts = {self._uris[name]: text for name, text in references.items()}
        self._documents: dict[str, Document] = {}
        own_uri = base.partition("#")[0]
        if own_uri and own_uri not in self._texts:
            self._documents[own_uri] = self._root

    def load_root(self) -> Node:
        """Returns the node of the schema.

        Raises:
            InvalidSchemaError: A keyword's value has the wrong type, or a reference leads nowhere.
        """
        return self.load(Place(self._root, ""))

    def _fill_object(self, node: Node, raw: dict[str, Any], place: Place) -> None:
        place = self._scope(raw, place)
        if "$ref" in raw:
            node.kind = NodeKind.REFERENCE
            node.rules = self._target(raw["$ref"], place)
        else:
            left = dict(raw)
            parts = self._parts(raw, left, place)
            if len(parts) == 1:
                node.become(parts[0])
            elif parts:
                for part in parts:
                    part.origin = raw
                node.kind = NodeKind.COMBINED
                node.rules = CombinedRules("allOf", parts, is_generated=True)
            self._add_left_over(node, left)
        draft = place.document.draft
        node.identifier = text_at(raw, draft.id_keyword, place)
        node.title = text_at(raw, "title", place)
        node.description = text_at(raw, "description", place)
        if draft >= Draft.DRAFT_7:
            boolean_at(raw, "readOnly", place)
            boolean_at(raw, "writeOnly", place)
        # What is beside a reference does not count, also no default.
        if "default" in raw and node.kind is not NodeKind.REFERENCE:
            node.default = write_json(raw["default"], is_sorted=True)

    @staticmethod
    def _add_left_over(node: Node, left: dict[str, Any]) -> None:
        """Adds keywords of later drafts that Confluent's registry compares all the same."""
        connect_type = left.get("connect.type")
        node.connect_type = connect_type if isinstance(connect_type, str) else None
        if node.kind is NodeKind.ARRAY:
            for keyword, name in (("minContains", "min_contains"), ("maxContains", "max_contains")):
                if not isinstance(left.get(keyword), bool | str | list | dict):
                    setattr(node.rules, name, left.get(keyword))

    def _parts(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> list[Node]:
        """Returns a node for each kind of value that the keywords are about; takes these out of `left`."""
        draft = place.document.draft
        parts = []
        if "enum" in left:
            parts.append(self._part(NodeKind.ENUM, self._values_at(raw, "enum", place), raw))
        for criterion in ("allOf", "anyOf", "oneOf"):
            if criterion in left:
                schemas = self._list(raw[criterion], place.inside(criterion))
                parts.append(self._part(NodeKind.COMBINED, CombinedRules(criterion, schemas), raw))
        if "not" in left:
            parts.append(self._part(NodeKind.NOT, self._child(raw["not"], place.inside("not")), raw))
        if "const" in left and draft >= Draft.DRAFT_6:
            parts.append(self._part(NodeKind.CONST, write_json(raw["const"], is_sorted=True), raw))
            del left["const"]
        for keyword in ("enum", "allOf", "anyOf", "oneOf", "not"):
            left.pop(keyword, None)
        if "type" in left:
            parts.append(self._typed(raw, left, place))
        for keywords, make in (
            (_array_keywords(draft), self._array),
            (_object_keywords(draft), self._object),
            (_NUMBER_KEYWORDS, self._number),
            (_STRING_KEYWORDS, self._string),
        ):
            if not left.keys().isdisjoint(keywords):
                parts.append(make(raw, left, place))
        if draft >= Draft.DRAFT_7 and not left.keys().isdisjoint(_CONDITIONAL_KEYWORDS):
            for keyword in _CONDITIONAL_KEYWORDS:
                if keyword in raw:
                    self._child(raw[keyword], place.inside(keyword))
            parts.append(self._part(NodeKind.CONDITIONAL, None, raw))
        return parts

    @staticmethod
    def _part(kind: NodeKind, rules: Any, raw: dict[str, Any]) -> Node:
        return Node(kind, rules, part=kind.name)

    def _typed(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        names = left.pop("type")
        if isinstance(names, str):
            return self._of_type(names, raw, left, place)
        if not isinstance(names, list):
            raise fault(place.inside("type"), "must be a string or an array", names)
        schemas = [self._of_type(name, raw, left, place) for name in texts_at(raw, "type", place)]
        return self._part(NodeKind.COMBINED, CombinedRules("anyOf", schemas, is_generated=True), raw)

    def _of_type(self, name: str, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        make = _TYPES.get(name)
        if make is None:
            raise fault(place.inside("type"), f"has an unknown type: {name[:100]}")
        node = make(self, raw, left, place)
        node.origin, node.part = raw, name
        return node

    def _boolean(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        return self._part(NodeKind.BOOLEAN, None, raw)

    def _null(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        return self._part(NodeKind.NULL, None, raw)

    def _string(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        _take(left, _STRING_KEYWORDS)
        text_at(raw, "format", place)
        rules = StringRules(
            integer_at(raw, "minLength", place),
            integer_at(raw, "maxLength", place),
            self._pattern_at(raw, "pattern", place),
        )
        return self._part(NodeKind.STRING, rules, raw)

    def _integer(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        node = self._number(raw, left, place)
        node.rules.is_integer = True
        return node

    def _number(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        _take(left, _NUMBER_KEYWORDS)
        rules = NumberRules(number_at(raw, "minimum", place), number_at(raw, "maximum", place))
        rules.multiple_of = number_at(raw, "multipleOf", place)
        if rules.multiple_of == 0:
            raise fault(place.inside("multipleOf"), "must not be 0")
        if place.document.draft >= Draft.DRAFT_6:
            rules.exclusive_minimum = number_at(raw, "exclusiveMinimum", place)
            rules.exclusive_maximum = number_at(raw, "exclusiveMaximum", place)
        else:
            boolean_at(raw, "exclusiveMinimum", place)
            boolean_at(raw, "exclusiveMaximum", place)
        return self._part(NodeKind.NUMBER, rules, raw)

    def _object(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        _take(left, _object_keywords(place.document.draft))
        rules = ObjectRules(
            min_properties=integer_at(raw, "minProperties", place),
            max_properties=integer_at(raw, "maxProperties", place),
            required=frozenset(texts_at(raw, "required", place)),
        )
        if "properties" in raw:
            rules.properties = self._properties(raw["properties"], place.inside("properties"))
        rules.has_additional, rules.additional = self._additional(raw, "additionalProperties", place)
        if "patternProperties" in raw:
            inside = place.inside("patternProperties")
            rules.patterns = self._patterns(raw["patternProperties"], inside)
        if "dependencies" in raw:
            self._add_dependencies(rules, raw["dependencies"], place.inside("dependencies"))
        if "propertyNames" in raw and place.document.draft >= Draft.DRAFT_6:
            self._child(raw["propertyNames"], place.inside("propertyNames"))
        return self._part(NodeKind.OBJECT, rules, raw)

    def _properties(self, schemas: Any, place: Place) -> dict[str, Node]:
        keyword = place.document.draft.id_keyword
        if isinstance(schemas, dict) and not isinstance(schemas.get(keyword, {}), dict):
            schemas = {name: raw for name, raw in schemas.items() if name != keyword}
        return self._children(schemas, place)

    def _additional(self, raw: dict[str, Any], keyword: str, place: Place) -> tuple[bool, Node | None]:
        """Returns whether more properties or items may be there, and the schema of them."""
        value = raw.get(keyword, True)
        if isinstance(value, bool):
            return value, None
        if not isinstance(value, dict):
            raise fault(place.inside(keyword), "must be an object or a boolean", value)
        return True, self._child(value, place.inside(keyword))

    def _add_dependencies(self, rules: ObjectRules, dependencies: Any, place: Place) -> None:
        if not isinstance(dependencies, dict):
            raise fault(place, "must be an object", dependencies)
        names: dict[str, set[str]] = {}
        schemas: dict[str, Node] = {}
        for name, value in dependencies.items():
            if isinstance(value, list):
                if value:
                    names[name] = set(texts_at(dependencies, name, place))
            elif _is_schema(value, place):
                schemas[name] = self._child(value, place.inside(name))
            else:
                raise fault(place.inside(name), "must be a schema or an array", value)
        rules.needed_properties, rules.needed_schemas = names, schemas

    def _array(self, raw: dict[str, Any], left: dict[str, Any], place: Place) -> Node:
        _take(left, _array_keywords(place.document.draft))
        rules = ArrayRules(
            min_items=integer_at(raw, "minItems", place),
            max_items=integer_at(raw, "maxItems", place),
            is_unique=boolean_at(raw, "uniqueItems", place) or False,
        )
        rules.has_additional, rules.additional = self._additional(raw, "additionalItems", place)
        items = raw.get("items", [])
        if isinstance(items, list):
            rules.prefix = self._list(items, place.inside("items"))
        elif _is_schema(items, place):
            rules.items = self._child(items, place.inside("items"))
            rules.has_additional = True
        else:
            raise fault(place.inside("items"), "must be a schema or an array", items)
        if "contains" in raw and place.document.draft >= Draft.DRAFT_6:
            self._child(raw["contains"], place.inside("contains"))
        return self._part(NodeKind.ARRAY, rules, raw)

    def _key(self, reference: str, place: Place) -> str:
        return f"{place.document.uri} {resolve(place.base, reference)}"

    def _find(self, reference: str, place: Place) -> tuple[Any, Place]:
        absolute = resolve(place.base, reference)
        named = self._by_id(place.document).get(absolute)
        if named is not None:
            return named
        if reference.startswith("#"):
            return self._in_document(place.document, reference, place)
        location, fragment = self._location(reference, place)
        return self._in_document(self._document(location, place), f"#{fragment}", place)

    def _location(self, reference: str, place: Place) -> tuple[str, str]:
        """Returns the URI of the document that `reference` leads to, and its fragment.

        A document may have an id that is not the URI by which it is registered. What is unknown relative to
        the id may be relative to this URI, or a name as it is registered.
        """
        name, _, own_fragment = reference.partition("#")
        absolute = resolve(place.base, reference)
        others = (resolve(place.document.uri, reference), f"{self._uris.get(name, name)}#{own_fragment}")
        for uri in (absolute, *others):
            location, _, fragment = uri.partition("#")
            if uri in self._texts:
                return uri, ""
            if location in self._texts or location in self._documents:
                return location, fragment
        location, _, fragment = absolute.partition("#")
        return location, fragment

    def _in_document(self, document: Document, fragment: str, source: Place) -> tuple[Any, Place]:
        start = Place(document, document.uri)
        if fragment == "#":
            return document.root, start
        named = self._by_id(document).get(fragment)
        if named is not None:
            return named
        if not fragment.startswith("#/"):
            raise fault(source.inside("$ref"), f"leads nowhere: {fragment[:100]}")
        return self._at_pointer(fragment, document.root, start, source)

    def _by_id(self, document: Document) -> dict[str, tuple[Any, Place]]:
        """Returns the schemas of a document that have an id, by that as it is written."""
        keyword = document.draft.id_keyword
        if id(document) not in self._ids:
            self._ids[id(document)] = {
                raw[keyword]: (raw, place)
                for raw, place in self._walk(document, _NOWHERE)
                if isinstance(raw.get(keyword), str)
            }
        return self._ids[id(document)]

    def _document(self, location: str, source: Place) -> Document:
        if location not in self._documents:
            if location in self._texts:
                root = read_references({location: self._texts[location]})[location]
                if not isinstance(root, dict):
                    raise fault(source.inside("$ref"), f"must lead to an object: {location[:100]}", root)
            elif (root := meta_schema(location)) is None:
                action = "register that schema and name it in references"
                kind = "fetches nothing" if has_scheme(location) else "has no such reference"
                rule = f"leads to {location[:100]}; the registry {kind}: {action}"
                raise fault(source.inside("$ref"), rule)
            draft = draft_of(root) if "$schema" in root else self._root.draft
            if draft > Draft.DRAFT_7:
                draft = self._root.draft
            self._documents[location] = Document(root, location, draft, location)
        return self._documents[location]


def _is_schema(value: Any, place: Place) -> bool:
    is_boolean = isinstance(value, bool) and place.document.draft >= Draft.DRAFT_6
    return isinstance(value, dict) or is_boolean


def _object_keywords(draft: Draft) -> tuple[str, ...]:
    return (*_OBJECT_KEYWORDS, "propertyNames") if draft >= Draft.DRAFT_6 else _OBJECT_KEYWORDS


def _array_keywords(draft: Draft) -> tuple[str, ...]:
    return (*_ARRAY_KEYWORDS, "contains") if draft >= Draft.DRAFT_6 else _ARRAY_KEYWORDS


def _take(left: dict[str, Any], keywords: tuple[str, ...]) -> None:
    for keyword in keywords:
        left.pop(keyword, None)


_Make = Callable[[OlderDraftsLoader, dict[str, Any], dict[str, Any], Place], Node]
_TYPES: dict[str, _Make] = {
    "array": OlderDraftsLoader._array,
    "boolean": OlderDraftsLoader._boolean,
    "integer": OlderDraftsLoader._integer,
    "null": OlderDraftsLoader._null,
    "number": OlderDraftsLoader._number,
    "object": OlderDraftsLoader._object,
    "string": OlderDraftsLoader._string,
}
