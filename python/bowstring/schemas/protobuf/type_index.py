"""Finds types and extensions by the names that a schema uses for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bowstring.schemas.protobuf.elements import Enum, Extend, Field, Message, ProtoFile, is_map_entry

# With the dot behind each.
WELL_KNOWN_PACKAGES = ("google.protobuf.", "google.type.", "confluent.")

# What the scopes around these packages have inside; those of the packages may have anything.
_WELL_KNOWN = {"": {"google", "confluent"}, "google": {"protobuf", "type"}}
_WELL_KNOWN_SCOPES = {"google.protobuf", "google.type", "confluent", "confluent.type"}

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bowstring.schemas.resolved_reference import ResolvedReference


@dataclass(slots=True)
class IndexedType:
    """A message or an enum.

    Attributes:
        full_name: with its package and the messages around it, without a leading dot.
        package: of its file; "" without one.
        reference: what its file was registered as; None of the schema itself and of well-known types.
        is_local: whether the schema itself declares it.
        is_map_entry: whether it is the message that a descriptor has for a map.
    """

    full_name: str
    package: str
    declared: Message | Enum
    reference: ResolvedReference | None
    is_local: bool
    is_map_entry: bool

    @property
    def local_name(self) -> str:
        """The name inside its package."""
        return self.full_name[len(self.package) + 1 :] if self.package else self.full_name

    def map_type(self) -> str:
        """Returns the map<key, value> that this message stands for."""
        assert isinstance(self.declared, Message)
        types = {field.name: field.type for field in self.declared.fields}
        return f"map<{types.get('key', '')}, {types.get('value', '')}>"


class DeclaredTypes:
    """The types and extensions of files, by their full names.

    Attributes:
        types: messages and enums.
        extensions: fields that `extend` declares.
        inside: what each package and message has directly inside: the names of types and extensions, and the
            next parts of packages.
    """

    __slots__ = ("extensions", "inside", "types")

    def __init__(self) -> None:
        self.inside: dict[str, set[str]] = {}
        self.types: dict[str, IndexedType] = {}
        self.extensions: dict[str, Field] = {}

    def add_file(
        self, file: ProtoFile, reference: ResolvedReference | None = None, *, is_local: bool = False
    ) -> None:
        """Adds what a file declares; it replaces what has the same name."""
        package = file.package or ""
        around = ""
        for part in package.split(".") if package else ():
            self.inside.setdefault(around, set()).add(part)
            around = f"{around}.{part}" if around else part
        self._add_extensions(file.extends, package)
        pending = [(package, declared) for declared in reversed(file.types)]
        while pending:
            around, declared = pending.pop()
            self.inside.setdefault(around, set()).add(declared.name)
            name = f"{around}.{declared.name}" if around else declared.name
            is_map = isinstance(declared, Message) and is_map_entry(declared)
            self.types[name] = IndexedType(name, package, declared, reference, is_local, is_map)
            if isinstance(declared, Message):
                self._add_extensions(declared.extends, name)
                pending.extend((name, nested) for nested in reversed(declared.types))

    def _add_extensions(self, extends: list[Extend], scope: str) -> None:
        for extend in extends:
            for field in extend.fields:
                self.inside.setdefault(scope, set()).add(field.name)
                self.extensions[f"{scope}.{field.name}" if scope else field.name] = field


class TypeIndex:
    """The types and extensions that a schema can name: its own, those of its references, and well-known ones.

    As in Confluent's registry, a type is found whether its file is imported or not.

    Args:
        file: the schema.
        dependencies: what it references, and the file of each.
    """

    def __init__(self, file: ProtoFile, dependencies: Sequence[tuple[ResolvedReference, ProtoFile]] = ()):
        self._declared = DeclaredTypes()
        self._given = frozenset(reference.name for reference, _ in dependencies)
        for reference, dependency in dependencies:
            self._declared.add_file(dependency, reference)
        self._declared.add_file(file, is_local=True)
        # The last scope with those around it: names of one message are resolved one after the other.
        self._last = "", [""]

    def type_named(self, full_name: str) -> IndexedType | None:
        """Returns the type with a full name, which may begin with a dot."""
        name = full_name.removeprefix(".")
        found = self._declared.types.get(name)
        if found is None and name.startswith(WELL_KNOWN_PACKAGES):
            return well_known_types(name, self._given).types.get(name)
        return found

    def extension_named(self, full_name: str) -> Field | None:
        """Returns the extension with a full name, which may begin with a dot."""
        name = full_name.removeprefix(".")
        found = self._declared.extensions.get(name)
        if found is None and name.startswith(WELL_KNOWN_PACKAGES):
            return well_known_types(name, self._given).extensions.get(name)
        return found

    def find_type(self, name: str, scope: str) -> IndexedType | None:
        """Returns the type that a name means in a scope: the innermost.

        Args:
            name: as the text has it; one with a leading dot is a full name.
            scope: the full name of the message around, or the package.
        """
        for full_name in self._candidates(name, scope):
            if (found := self.type_named(full_name)) is not None:
                return found
        return None

    def find_extension(self, name: str, scope: str) -> tuple[str, Field] | None:
        """Returns the full name of the extension that a name means in a scope, and the extension."""
        for full_name in self._candidates(name, scope):
            if (found := self.extension_named(full_name)) is not None:
                return full_name, found
        return None

    def _candidates(self, name: str, scope: str) -> Iterator[str]:
        """Yields the full names that a name may mean in a scope, innermost first."""
        if name.startswith("."):
            yield name[1:]
            return
        # Most scopes do not have the first part of the name; only for the others is it worth a long name.
        first = name.partition(".")[0]
        inside = self._declared.inside
        for around in self._enclosing(scope):
            if (
                first in inside.get(around, ())
                or first in _WELL_KNOWN.get(around, ())
                or around in _WELL_KNOWN_SCOPES
            ):
                yield f"{around}.{name}" if around else name

    def _enclosing(self, scope: str) -> list[str]:
        """Returns a scope and all around it, innermost first."""
        last, scopes = self._last
        if scope != last:
            scopes = [scope]
            while scopes[-1]:
                scopes.append(scopes[-1].rpartition(".")[0])
            # One assignment: threads may share an index.
            self._last = scope, scopes
        return scopes


def well_known_types(name: str, replaced: frozenset[str]) -> DeclaredTypes:
    """Returns what the well-known files of the package of a full name declare.

    Args:
        replaced: names of files that a schema brings itself.
    """
    # It loads descriptors of other packages, which most schemas do without.
    from bowstring.schemas.protobuf import well_known

    package = next(each for each in WELL_KNOWN_PACKAGES if name.startswith(each))
    return well_known.declared_types(package, frozenset(replaced & well_known.FILES.keys()))
