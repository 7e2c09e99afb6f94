"""Renders the page of schemas' compatibility from the tables that compare them."""

from __future__ import annotations

from bowstring.schemas.avro.avro_type import DEPTH_MAX
from bowstring.schemas.avro.reader_writer import PROMOTIONS, Kind
from bowstring.schemas.compatibility import LEVELS, CompatibilityLevel
from bowstring.schemas.json_schema.change_kinds import CHANGE_KINDS, Borne
from bowstring.schemas.json_schema.json_text import DEEPEST_NESTING, LARGEST_TEXT
from bowstring.schemas.json_schema.schema_loader import MOST_STEPS
from bowstring.schemas.protobuf.descriptor_classes import SERIALIZED_MAX
from bowstring.schemas.protobuf.file_comparison import DESCRIPTIONS, SCALAR_KINDS
from bowstring.schemas.protobuf.proto_parser import DEPTH_MAX as PROTOBUF_DEPTH_MAX
from bowstring.schemas.protobuf.proto_reader import PARTS_MAX, WORD_MAX
from docs.generate.markdown import code, plain, table

HEAD = """\
# Compatibility of schemas

The schema registry refuses a new version of a subject with error 409 if its compatibility level forbids
what it changes. The rules and the names of changes are Confluent's, so both registries come to one verdict.
`?verbose=true` lists each change with its path, and the version that it does not fit.

## Levels

`compatibility` in `/config`, for all subjects or one. The default is BACKWARD.
"""
AFTER_LEVELS = """\
A first version fits every level. A version of another type (Avro, JSON Schema, Protobuf) fits none but NONE.
With `compatibilityGroup`, only versions are compared whose metadata has the same value for this property.
`compatibilityPolicy` LENIENT changes the rules of JSON Schema only. LOGICAL is refused.

A check stops at the first version that the new one does not fit. Schemas that were made to take very long
are incompatible, with NOT_COMPARABLE or COMPARISON_TOO_LARGE as the name of the change.

## Avro

Avro's own rules decide, *Schema Resolution* in its specification, as Apache Avro for Java applies them. The
*reader* is the new schema with BACKWARD, and the older one with FORWARD. Types that can be promoted:
"""
AVRO_RULES = f"""\
- **Names**: records, enums and fixeds match by the name without namespace, or by an alias of the reader
  that is the writer's full name. Fields match by name or an alias of the reader. Aliases of the writer do
  not count.
- **Defaults**: a field that is only in the reader needs one; `null` counts where a union has it. Fields that
  are only in the writer are skipped.
- **Unions**: each branch of the writer must be readable by some branch of the reader. A type that is no
  union is read by a union that has it, and a union by a type that can read all of its branches.
- **Enums**: a symbol that the reader lacks needs a `default` of the reader's enum.
- **Logical types, documentation, order and properties** do not count: `timestamp-millis` reads `date`,
  because both are numbers. Whoever changes the scale of a decimal changes its values.
- Types may refer to each other without end. In the text, {DEPTH_MAX} levels are accepted.

A new schema has names of ASCII letters, digits and `_`, and defaults that fit their types. Stored schemas
that do not are still read. Different from Confluent's registry:

- A default of a type that is defined later in the text is checked against this type. Java refuses it.
- `?normalize=true` writes the default of a `float` with the fewest digits, as JDK 19 and later do, and keeps
  defaults of all branches of a union. Java before Avro 1.12.2 loses those of others than the first.
- Integers of more than 64 bits may be properties of records, arrays and maps.

## JSON Schema

Drafts 4, 6, 7, 2019-09 and 2020-12. A content model is *open* if an object or array may have more than its
schema lists, *closed* if not, and *partially open* if a pattern or a schema limits the rest.
"""
JSON_AFTER = """\
Changes that no policy forbids: new titles, descriptions, ids and defaults, wider limits, and those below.
"""
JSON_LIMITS = f"""\
As in Confluent's registry, `if`, `then` and `else`, `format`, `propertyNames`, and the schemas of `contains`
and `patternProperties` are not compared, and numbers are compared as doubles. Different from it:

- Nothing is fetched: a `$ref` leads into the schema, to one of `references`, or to a meta-schema of the
  drafts above. Everything else is refused.
- References to references are followed to their end; Confluent's registry follows one.
- From draft 2019-09, `contains`, `unevaluatedItems` and `unevaluatedProperties` count beside `$defs` and
  unknown keywords, too.
- Schemas that say the same in an `anyOf` count once if their JSON is equal but for the order of members.
- A schema has up to {LARGEST_TEXT >> 20} Mi characters, {DEEPEST_NESTING} levels and {MOST_STEPS:,} parts,
  with those it refers to. Regular expressions run in linear time, by RE2: one that needs more, such as
  `(?=a)`, is compared as text, but matches no property.
"""
PROTOBUF_HEAD = """\
## Protobuf

Fields are compared by number: a new name is compatible. So is an optional or repeated field that comes or
goes, an enum's constant that comes or goes, and a oneof that goes with all of its fields. Messages are
compared by name, also those of imported files.
"""
PROTOBUF_AFTER = """\
Types that read each other, because they are encoded in one way:
"""
PROTOBUF_LIMITS = f"""\
As in Confluent's registry, some changes that lose data are compatible: a number without a label that becomes
repeated, or the reverse, in proto3; bytes that are no UTF-8 and become a string; a large number in a smaller
type; groups, which are not compared. `normalize=true` writes numbers of options, defaults among them, with
three decimals. A type is found in every file of `references`, imported or not. Google's well-known and
common types and Confluent's metadata need no reference. Different from it:

- A message that contains itself and moves to another file is compared there, too.
- A new schema must keep protoc's rules for numbers, names and what is reserved, besides declaring all types.
- Defaults of bytes keep their quotes where they need them, texts keep `edition`, and `format=serialized`
  keeps groups and editions.
- The names of a message and of its package have {WORD_MAX} characters together. There are up to
  {PROTOBUF_DEPTH_MAX} messages in each other, and {PARTS_MAX:,} declarations, options and values in a file
  with its references. A descriptor in Base64 has up to {SERIALIZED_MAX >> 20} MiB.
"""


def render() -> str:
    """The page as Markdown."""
    return "\n".join(
        [
            HEAD,
            *table(
                ("level", "the new schema reads old data", "old schemas read new data", "against"),
                map(_level, LEVELS.values()),
            ),
            AFTER_LEVELS,
            *table(("reader", "reads, besides itself"), map(_promotion, sorted(PROMOTIONS))),
            *table(("change", "what is incompatible"), ((code(kind.name), kind.value) for kind in Kind)),
            AVRO_RULES,
            *_json_table(incompatible=True),
            JSON_AFTER,
            *_json_table(incompatible=False),
            JSON_LIMITS,
            PROTOBUF_HEAD,
            *table(
                ("change", "what is incompatible"),
                ((code(name), _sentence(text)) for name, text in DESCRIPTIONS.items()),
            ),
            PROTOBUF_AFTER,
            *table(("encoding", "types"), map(_encoding, dict.fromkeys(SCALAR_KINDS.values()))),
            PROTOBUF_LIMITS,
        ]
    )


def _level(level: CompatibilityLevel) -> tuple[str, str, str, str]:
    against = "all versions" if level.transitive else "the latest version"
    compares = level.reads_old or level.read_by_old
    return (
        code(level.name),
        "yes" if level.reads_old else "",
        "yes" if level.read_by_old else "",
        against if compares else "nothing",
    )


def _promotion(reader: str) -> tuple[str, str]:
    return code(reader), ", ".join(code(writer) for writer in sorted(PROMOTIONS[reader]))


def _json_table(*, incompatible: bool) -> list[str]:
    rows = [
        (code(kind.name), _sentence(kind.description), *([kind.borne.value] if incompatible else []))
        for kind in CHANGE_KINDS.values()
        if (kind.borne is not Borne.ALWAYS) is incompatible
    ]
    columns = ("change", "what it is", "compatible with policy") if incompatible else ("change", "what it is")
    return list(table(columns, rows))


def _encoding(kind: str) -> tuple[str, str]:
    scalars = ", ".join(code(scalar) for scalar, each in SCALAR_KINDS.items() if each == kind)
    return kind, f"{scalars}, enums" if kind == SCALAR_KINDS["int32"] else scalars


def _sentence(text: str) -> str:
    """A description of a difference as a sentence about a reader and a writer."""
    for placeholder, word in (("{reader}", "reader's"), ("{writer}", "writer's"), ("{path}", "")):
        text = text.replace(placeholder, word)
    text = plain(" ".join(text.split()))
    return f"{text[:1].upper()}{text[1:]}."
