"""Pairs of JSON schemas, with the changes between them: at least one for each kind."""

NEW = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
OPEN = {"type": "object"}
CLOSED = {"type": "object", "additionalProperties": False}
PARTIAL = {"type": "object", "additionalProperties": {"type": "string"}}
A = {"type": "object", "properties": {"a": {"type": "string"}}}
B = {"type": "object", "properties": {"b": {"type": "integer"}}}
ARRAY = {"type": "array"}
TEXT, NUMBER = {"type": "string"}, {"type": "number"}


def limits(keyword, name, low, high, is_upper, **beside):
    """Cases of a limit that comes, goes, rises and falls."""
    up, down = {**beside, keyword: high}, {**beside, keyword: low}
    path = f"#/{keyword}"
    return [
        (beside, up, [f"{name}_ADDED {path}"]),
        (up, beside, [f"{name}_REMOVED {path}"]),
        (down, up, [f"{name}_INCREASED {path}"]),
        (up, down, [f"{name}_DECREASED {path}"]),
    ]


def rests(keyword, name, **beside):
    """Cases of what else may be in an object or array."""
    path = f"#/{keyword}"
    no, text = {**beside, keyword: False}, {**beside, keyword: TEXT}
    return [
        (no, beside, [f"{name}_ADDED {path}"]),
        (beside, no, [f"{name}_REMOVED {path}"]),
        (text, beside, [f"{name}_EXTENDED {path}"]),
        (beside, text, [f"{name}_NARROWED {path}"]),
    ]


CASES = [
    ({"$id": "a"}, {"$id": "b"}, ["ID_CHANGED #/"]),
    ({"title": "a"}, {"title": "b"}, ["TITLE_CHANGED #/"]),
    ({"description": "a"}, {}, ["DESCRIPTION_CHANGED #/"]),
    ({"default": 1}, {"default": 2}, ["DEFAULT_CHANGED #/"]),
    ({**ARRAY, "items": TEXT}, ARRAY, ["SCHEMA_REMOVED #/items"]),
    (ARRAY, {**ARRAY, "items": TEXT}, ["SCHEMA_ADDED #/items"]),
    ({"type": "integer"}, NUMBER, ["TYPE_EXTENDED #/"]),
    (NUMBER, {"type": "integer"}, ["TYPE_NARROWED #/"]),
    (NUMBER, TEXT, ["TYPE_CHANGED #/"]),
    *limits("maxLength", "MAX_LENGTH", 1, 2, True, type="string"),
    *limits("minLength", "MIN_LENGTH", 1, 2, False, type="string"),
    (TEXT, {**TEXT, "pattern": "^a"}, ["PATTERN_ADDED #/pattern"]),
    ({**TEXT, "pattern": "^a"}, TEXT, ["PATTERN_REMOVED #/pattern"]),
    ({**TEXT, "pattern": "^a"}, {**TEXT, "pattern": "^b"}, ["PATTERN_CHANGED #/pattern"]),
    *limits("maximum", "MAXIMUM", 1, 2.5, True, type="number"),
    *limits("minimum", "MINIMUM", 1, 2.5, False, type="number"),
    *limits("exclusiveMaximum", "EXCLUSIVE_MAXIMUM", 1, 2, True, type="number"),
    *limits("exclusiveMinimum", "EXCLUSIVE_MINIMUM", 1, 2, False, type="number"),
    (NUMBER, {**NUMBER, "multipleOf": 2}, ["MULTIPLE_OF_ADDED #/multipleOf"]),
    ({**NUMBER, "multipleOf": 2}, NUMBER, ["MULTIPLE_OF_REMOVED #/multipleOf"]),
    ({"multipleOf": 0.1}, {"multipleOf": 0.3}, ["MULTIPLE_OF_EXPANDED #/multipleOf"]),
    ({"multipleOf": 4}, {"multipleOf": 2}, ["MULTIPLE_OF_REDUCED #/multipleOf"]),
    ({"multipleOf": 4}, {"multipleOf": 3}, ["MULTIPLE_OF_CHANGED #/multipleOf"]),
    ({"multipleOf": 4}, {"multipleOf": 4.00}, []),
    (A, {**A, "required": ["a"]}, ["REQUIRED_ATTRIBUTE_ADDED #/required/a"]),
    ({**A, "required": ["a"]}, A, ["REQUIRED_ATTRIBUTE_REMOVED #/required/a"]),
    (
        A,
        {"properties": {"a": {"type": "string", "default": ""}}, "required": ["a"]},
        ["REQUIRED_ATTRIBUTE_WITH_DEFAULT_ADDED #/required/a", "DEFAULT_CHANGED #/properties/a"],
    ),
    *limits("maxProperties", "MAX_PROPERTIES", 1, 2, True, type="object"),
    *limits("minProperties", "MIN_PROPERTIES", 1, 2, False, type="object"),
    *rests("additionalProperties", "ADDITIONAL_PROPERTIES", type="object"),
    *rests("unevaluatedProperties", "UNEVALUATED_PROPERTIES", type="object", **NEW),
    (OPEN, {**OPEN, "dependencies": {"a": ["b"]}}, ["DEPENDENCY_ARRAY_ADDED #/dependencies/a"]),
    ({**OPEN, "dependencies": {"a": ["b"]}}, OPEN, ["DEPENDENCY_ARRAY_REMOVED #/dependencies/a"]),
    (
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["b", "c"]}},
        ["DEPENDENCY_ARRAY_EXTENDED #/dependencies/a"],
    ),
    (
        {**NEW, "dependentRequired": {"a": ["c", "b"]}},
        {**NEW, "dependentRequired": {"a": ["b"]}},
        ["DEPENDENCY_ARRAY_NARROWED #/dependencies/a"],
    ),
    (
        {"dependencies": {"a": ["b"]}},
        {"dependencies": {"a": ["c"]}},
        ["DEPENDENCY_ARRAY_CHANGED #/dependencies/a"],
    ),
    (OPEN, {**OPEN, "dependencies": {"a": TEXT}}, ["DEPENDENCY_SCHEMA_ADDED #/dependencies/a"]),
    (
        {**NEW, **OPEN, "dependentSchemas": {"a": TEXT}},
        {**NEW, **OPEN},
        ["DEPENDENCY_SCHEMA_REMOVED #/dependencies/a"],
    ),
    (OPEN, A, ["OPTIONAL_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
    (OPEN, {**A, "required": ["a"]}, ["REQUIRED_PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"]),
    (
        OPEN,
        {"properties": {"a": {"default": 1, **NUMBER}}, "required": ["a"]},
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        OPEN,
        {**OPEN, "properties": {"a": {}}},
        ["PROPERTY_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        CLOSED,
        {**CLOSED, **A, "required": ["a"]},
        ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        CLOSED,
        {**CLOSED, "properties": {"a": {"default": 1}}, "required": ["a"]},
        ["REQUIRED_PROPERTY_WITH_DEFAULT_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"],
    ),
    (CLOSED, {**CLOSED, **A}, ["OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a"]),
    (A, OPEN, ["PROPERTY_REMOVED_FROM_OPEN_CONTENT_MODEL #/properties/a"]),
    ({**CLOSED, **A}, CLOSED, ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"]),
    (
        {**CLOSED, "properties": {"a": False}},
        CLOSED,
        ["PROPERTY_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/properties/a"],
    ),
    (
        {**PARTIAL, **A},
        PARTIAL,
        ["PROPERTY_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a"],
    ),
    (
        {**PARTIAL, **B},
        PARTIAL,
        [
            "TYPE_CHANGED #/properties/b",
            "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
        ],
    ),
    (
        PARTIAL,
        {**PARTIAL, **A},
        [
            "PROPERTY_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/a",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/a",
        ],
    ),
    (
        {"patternProperties": {"^b": TEXT}},
        {"patternProperties": {"^b": TEXT}, **B},
        [
            "TYPE_CHANGED #/properties/b",
            "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/properties/b",
            "OPTIONAL_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL #/properties/b",
        ],
    ),
    *limits("maxItems", "MAX_ITEMS", 1, 2, True, type="array"),
    *limits("minItems", "MIN_ITEMS", 1, 2, False, type="array"),
    *limits("maxContains", "MAX_CONTAINS", 1, 2, True, contains=TEXT, **NEW),
    *limits("minContains", "MIN_CONTAINS", 0, 2, False, contains=TEXT, **NEW)[2:],
    ({**NEW, **ARRAY}, {**NEW, **ARRAY, "contains": TEXT}, ["MIN_CONTAINS_ADDED #/minContains"]),
    ({**NEW, **ARRAY, "contains": TEXT}, {**NEW, **ARRAY}, ["MIN_CONTAINS_REMOVED #/minContains"]),
    (ARRAY, {**ARRAY, "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED #/uniqueItems"]),
    ({**ARRAY, "uniqueItems": True}, ARRAY, ["UNIQUE_ITEMS_REMOVED #/uniqueItems"]),
    *rests("additionalItems", "ADDITIONAL_ITEMS", type="array", items=[TEXT]),
    *rests("unevaluatedItems", "UNEVALUATED_ITEMS", type="array", **NEW),
    ({"items": [TEXT]}, {"items": [TEXT, NUMBER]}, ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"]),
    (
        {"items": [TEXT]},
        {"items": [TEXT, {}]},
        ["ITEM_WITH_EMPTY_SCHEMA_ADDED_TO_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {"items": [TEXT], "additionalItems": False},
        {"items": [TEXT, NUMBER], "additionalItems": False},
        ["ITEM_ADDED_TO_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    ({"items": [TEXT, TEXT]}, {"items": [TEXT]}, ["ITEM_REMOVED_FROM_OPEN_CONTENT_MODEL #/items/1"]),
    (
        {**NEW, "prefixItems": [TEXT, False], "items": False},
        {**NEW, "prefixItems": [TEXT], "items": False},
        ["ITEM_WITH_FALSE_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {"items": [TEXT, TEXT], "additionalItems": False},
        {"items": [TEXT], "additionalItems": False},
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL #/items/1"],
    ),
    (
        {**NEW, "prefixItems": [TEXT, TEXT], "items": TEXT},
        {**NEW, "prefixItems": [TEXT], "items": TEXT},
        ["ITEM_REMOVED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {**NEW, "prefixItems": [TEXT, NUMBER], "unevaluatedItems": TEXT},
        {**NEW, "prefixItems": [TEXT], "unevaluatedItems": TEXT},
        ["TYPE_CHANGED #/items/1", "ITEM_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {"items": [TEXT], "additionalItems": TEXT},
        {"items": [TEXT, TEXT], "additionalItems": TEXT},
        ["ITEM_ADDED_IS_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    (
        {"items": [TEXT], "additionalItems": TEXT},
        {"items": [TEXT, NUMBER], "additionalItems": TEXT},
        ["TYPE_CHANGED #/items/1", "ITEM_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL #/items/1"],
    ),
    ({"enum": [1]}, {"enum": ["a", 1]}, ["ENUM_ARRAY_EXTENDED #/enum"]),
    ({"enum": [1, {"a": 1, "b": 2}]}, {"enum": [{"b": 2, "a": 1}]}, ["ENUM_ARRAY_NARROWED #/enum"]),
    ({"enum": [1]}, {"enum": [2]}, ["ENUM_ARRAY_CHANGED #/enum"]),
    ({"const": None}, {"const": 2}, ["ENUM_ARRAY_CHANGED #/const"]),
    ({"oneOf": [TEXT, NUMBER]}, {"anyOf": [TEXT, NUMBER]}, ["COMBINED_TYPE_EXTENDED #/"]),
    ({"anyOf": [{"enum": [1]}, NUMBER]}, {"oneOf": [{"enum": [1]}, NUMBER]}, ["COMBINED_TYPE_CHANGED #/"]),
    (
        {"allOf": [TEXT, {"enum": ["a"]}]},
        {"allOf": [TEXT, {"enum": ["a"]}, OPEN]},
        ["PRODUCT_TYPE_EXTENDED #/"],
    ),
    ({"allOf": [TEXT, NUMBER]}, NUMBER, ["PRODUCT_TYPE_NARROWED #/"]),
    (TEXT, {"type": ["string", "null"]}, ["SUM_TYPE_EXTENDED #/"]),
    ({"oneOf": [TEXT, NUMBER, OPEN]}, {"oneOf": [OPEN, TEXT]}, ["SUM_TYPE_NARROWED #/"]),
    ({"oneOf": [TEXT, NUMBER, TEXT]}, {"oneOf": [NUMBER, TEXT]}, []),
    ({"oneOf": [TEXT, NUMBER]}, {"oneOf": [TEXT, OPEN]}, ["COMBINED_TYPE_SUBSCHEMAS_CHANGED #/"]),
    ({"not": NUMBER}, {"not": {"type": "integer"}}, ["NOT_TYPE_NARROWED #/not"]),
    ({"not": {"type": "integer"}}, {"not": NUMBER}, ["NOT_TYPE_EXTENDED #/not"]),
    # No change at all.
    (False, TEXT, []),
    (TEXT, True, []),
    (TEXT, {}, []),
    ({}, {"$schema": "http://json-schema.org/draft-07/schema#"}, []),
    ({**TEXT, "connect.type": "bytes"}, {**NUMBER, "connect.type": "bytes"}, []),
    ({"if": TEXT, "then": {"minLength": 1}}, {"if": TEXT, "then": {"minLength": 2}}, []),
    ({"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1}}, []),
]
