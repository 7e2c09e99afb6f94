"""The subjects of one context, and its schemas by id and hash."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from bowstring.registry.qualified_subject import in_context_of
from bowstring.registry.schema_record import SchemaRecord

SubjectVersion: TypeAlias = tuple[str, int]
# An imported schema may have several ids: the one that was registered last counts.
Ids: TypeAlias = int | tuple[int, ...]


class Before(NamedTuple):
    """What a context had before a version was put into it."""

    max_id: int
    with_id: tuple[SchemaRecord, ...] | None
    ids: Ids | None


class ContextImage:
    """One context of a RegistryImage, which alone changes it.

    Attributes:
        name: With its dot; `.` is the default context.
        max_id: The highest id ever given; 0 if none was.
        subjects: The versions of each subject, soft-deleted ones too, in ascending order.
    """

    def __init__(self, name: str):
        self.name = name
        self.max_id = 0
        self.subjects: dict[str, list[SchemaRecord]] = {}
        self._by_id: dict[int, tuple[SchemaRecord, ...]] = {}
        self._ids: dict[bytes, Ids] = {}

    def version(self, subject: str, version: int) -> SchemaRecord | None:
        """One version, also if it is soft-deleted."""
        versions = self.subjects.get(subject)
        if versions is None:
            return None
        at = _place(versions, version)
        return versions[at] if at < len(versions) and versions[at].version == version else None

    def of_id(self, schema_id: int) -> tuple[SchemaRecord, ...]:
        """Every version with this id, in the order of their records."""
        return self._by_id.get(schema_id, ())

    def id_of(self, md5: bytes, kind: str | None = None) -> int | None:
        """The id of a schema, the last if there are several; with `kind`, only of schemas of this type."""
        ids = self._ids.get(md5)
        if not isinstance(ids, tuple):
            ids = () if ids is None else (ids,)
        # The hash leaves the type out, and a text may be a schema of two.
        return next((each for each in reversed(ids) if kind in (None, self._by_id[each][0].kind)), None)

    def records(self) -> Iterator[SchemaRecord]:
        """All versions of all subjects."""
        for versions in self.subjects.values():
            yield from versions

    def put(self, record: SchemaRecord) -> bool:
        """Adds or replaces a version. Returns whether the subject is new."""
        record.text = self._shared_text(record)
        versions = self.subjects.get(record.subject)
        is_new = versions is None
        if versions is None:
            self.subjects[record.subject] = [record]
        else:
            at = _place(versions, record.version)
            if at < len(versions) and versions[at].version == record.version:
                self._unlink(versions[at])
                versions[at] = record
            else:
                versions.insert(at, record)
        self.max_id = max(self.max_id, record.id)
        self._by_id[record.id] = (*self._by_id.get(record.id, ()), record)
        self._ids[record.md5] = _with_last(self._ids.get(record.md5), record.id)
        return is_new

    def before(self, record: SchemaRecord) -> Before:
        """What `take_back` needs to take a version back that is about to be put."""
        return Before(self.max_id, self._by_id.get(record.id), self._ids.get(record.md5))

    def take_back(self, record: SchemaRecord, before: Before) -> None:
        """Undoes the last `put`, which replaced no version."""
        versions = self.subjects[record.subject]
        if len(versions) == 1:
            del self.subjects[record.subject]
        else:
            del versions[_place(versions, record.version)]
        self.max_id = before.max_id
        if before.with_id is None:
            del self._by_id[record.id]
        else:
            self._by_id[record.id] = before.with_id
        if before.ids is None:
            del self._ids[record.md5]
        else:
            self._ids[record.md5] = before.ids

    def remove(self, subject: str, version: int) -> SchemaRecord | None:
        """Forgets a version. Returns it; None if there was none."""
        record = self.version(subject, version)
        if record is not None:
            versions = self.subjects[subject]
            versions.remove(record)
            if not versions:
                del self.subjects[subject]
            self._unlink(record)
        return record

    def _unlink(self, record: SchemaRecord) -> None:
        left = tuple(other for other in self._by_id[record.id] if other is not record)
        if left:
            self._by_id[record.id] = left
        else:
            del self._by_id[record.id]
        if not any(other.md5 == record.md5 for other in left):
            ids = _without(self._ids[record.md5], record.id)
            if ids is None:
                del self._ids[record.md5]
            else:
                self._ids[record.md5] = ids

    def _shared_text(self, record: SchemaRecord) -> str:
        """The text of an equal schema that is here already, so that memory holds it once."""
        known = self.id_of(record.md5)
        if known is not None:
            for other in self._by_id[known]:
                if other.text == record.text:
                    return other.text
        return record.text


def referenced(record: SchemaRecord) -> Iterator[SubjectVersion]:
    """The versions that a schema refers to, with full names."""
    for _, subject, version in record.references:
        yield in_context_of(record.subject, subject), version


def _place(versions: list[SchemaRecord], version: int) -> int:
    last = versions[-1].version
    if last <= version:
        return len(versions) - (last == version)
    return bisect_left(versions, version, key=_version_of)


def _version_of(record: SchemaRecord) -> int:
    return record.version


def _with_last(ids: Ids | None, schema_id: int) -> Ids:
    others = () if ids is None else ids if isinstance(ids, tuple) else (ids,)
    others = tuple(other for other in others if other != schema_id)
    return (*others, schema_id) if others else schema_id


def _without(ids: Ids, schema_id: int) -> Ids | None:
    left = tuple(other for other in (ids if isinstance(ids, tuple) else (ids,)) if other != schema_id)
    return None if not left else left if len(left) > 1 else left[0]
