"""The state of the registry: what the records of its topic say together."""

from __future__ import annotations

import json
import logging
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

from bowstring.registry import topic_records
from bowstring.registry.context_image import Before, ContextImage, SubjectVersion, referenced
from bowstring.registry.parsed_schemas import ParsedSchemas
from bowstring.registry.qualified_subject import (
    CONTEXT_PREFIX,
    DEFAULT_CONTEXT,
    GLOBAL_CONTEXT,
    WILDCARD,
    context_of,
    parse,
)
from bowstring.registry.registry_defaults import RegistryDefaults
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.topic_records import TopicKey

Value = TypeVar("Value")

log = logging.getLogger(__name__)


class Supposed(NamedTuple):
    """A version that is in an image for a moment, and what the image had before it."""

    record: SchemaRecord
    before: Before
    subject_names: list[str] | None


class RegistryImage:
    """Subjects, configs, modes and contexts as of an offset of the topic.

    `apply` and `apply_added` take the records in order, and nothing else changes what the image says: the
    same records give the same image. One thread uses it. To decide several writes in one step, that thread
    supposes the versions of the earlier ones, and retracts them before the step ends.

    Attributes:
        defaults: What applies where no config says more.
        offset: Of the last record that was applied; -1 before the first.
        configs: By subject, or `:.context:`; None is the global one.
        modes: The same of modes.
        scoped_configs: A bounded cache of configs in scope (operations/configs.py).
        contexts: The contexts that a record or a schema names, sorted by name only in listings.
        parsed: A bounded cache of parsed schemas.
    """

    def __init__(self, defaults: RegistryDefaults | None = None):
        self.defaults = defaults or RegistryDefaults()
        self.offset = -1
        self.configs: dict[str | None, dict[str, Any]] = {}
        self.scoped_configs: dict[str | None, dict[str, Any]] = {}
        self.modes: dict[str | None, str] = {}
        self.named_contexts: set[str] = set()
        self.contexts: dict[str, ContextImage] = {}
        self.parsed = ParsedSchemas()
        self._referrers: dict[SubjectVersion, list[SchemaRecord]] = {}
        self._subject_names: list[str] | None = None
        # Keys that another registry spelled in another way: compaction keeps their records apart from ours.
        self._other_keys: dict[TopicKey, set[bytes]] = {}

    def apply(
        self, key: bytes, value: bytes | None, offset: int = -1, timestamp_ms: int | None = None
    ) -> None:
        """Takes a record of the topic.

        A record that no registry could have meant (no JSON, wrong types, an id of another schema) is logged
        and has no effect, as in Confluent's registry.

        Args:
            offset: A record at or before `self.offset` was applied already and has no effect; -1: not known
                yet.
            timestamp_ms: Of the record, since the epoch.
        """
        if 0 <= offset <= self.offset:
            return
        self.offset = max(self.offset, offset)
        value = value or None  # Karapace deletes by an empty value
        try:
            topic_key = topic_records.decode_key(key)
            self._note_spelling(topic_key, key, value)
            self._apply(topic_key, value, timestamp_ms)
        except ValueError as error:
            log.warning("Record at offset %d of the registry's topic is ignored: %s", offset, error)

    def apply_added(self, record: SchemaRecord, offset: int, timestamp_ms: int) -> None:
        """Takes the record of a new version as `apply` does, without reading it again.

        Args:
            record: What the record was written from (`Decision.added`).
            offset: Of the record.
            timestamp_ms: Of the record, since the epoch.
        """
        if offset <= self.offset:
            return
        self.offset = offset
        record.timestamp_ms = timestamp_ms
        try:
            self._put(record)
        except ValueError as error:
            log.warning("Record at offset %d of the registry's topic is ignored: %s", offset, error)

    def suppose(self, record: SchemaRecord) -> Supposed | None:
        """Adds a version that is not committed, until `retract`; None if it would not be a new one."""
        context = self.context(context_of(record.subject))
        before, names = context.before(record), self._subject_names
        if context.version(record.subject, record.version) is not None:
            return None
        self._subject_names = None
        try:
            self._put(record)
        except ValueError:
            self._subject_names = names
            return None
        return Supposed(record, before, names)

    def retract(self, supposed: Supposed) -> None:
        """Takes the version back that was supposed last."""
        record = supposed.record
        self.context(context_of(record.subject)).take_back(record, supposed.before)
        self._unlink_references(record)
        self._subject_names = supposed.subject_names

    def _apply(self, key: TopicKey, value: bytes | None, timestamp_ms: int | None) -> None:
        kind, name, version = key
        if kind == topic_records.SCHEMA:
            assert name is not None
            if value is None:
                self._forget(name, version)
            else:
                record = topic_records.decode_schema(value, timestamp_ms)
                if (record.subject, record.version) != (name, version):
                    raise ValueError("key and value name different versions")
                self._put(record)
        elif kind == topic_records.CONFIG:
            _set(self.configs, name, None if value is None else topic_records.decode_config(value))
            self.scoped_configs.clear()
        elif kind == topic_records.MODE:
            _set(self.modes, name, None if value is None else topic_records.decode_mode(value))
        elif kind == topic_records.CONTEXT:
            assert name is not None
            (self.named_contexts.discard if value is None else self.named_contexts.add)(name)
        elif value is not None:
            self._apply_event(kind, name, value)

    def _apply_event(self, kind: str, name: str | None, value: bytes) -> None:
        """Takes a record that is no state of its key."""
        if kind == topic_records.DELETE_SUBJECT:
            assert name is not None
            last = topic_records.decode_delete_subject(value)
            for record in self.versions(name):
                if record.version <= last:
                    record.deleted = True
        elif kind == topic_records.CLEAR_SUBJECT:
            self._clear(name)
        else:
            for context, highest in topic_records.decode_max_ids(value).items():
                image = self.context(context)
                image.max_id = max(image.max_id, highest)

    def _put(self, record: SchemaRecord) -> None:
        context = self.context(context_of(record.subject))
        others = context.of_id(record.id)
        old = context.version(record.subject, record.version)
        if any(other is not old and not _is_one_text(other.text, record.text) for other in others):
            raise ValueError(f"id {record.id} is of another schema")
        if old is not None:
            self._unlink_references(old)
        if context.put(record) and self._subject_names is not None:
            insort(self._subject_names, record.subject)
        for target in referenced(record):
            self._referrers.setdefault(target, []).append(record)

    def _forget(self, subject: str, version: int) -> None:
        context = self.contexts.get(context_of(subject))
        record = context.remove(subject, version) if context is not None else None
        if record is not None:
            self._unlink_references(record)
            if self._subject_names is not None and not self.versions(subject):
                del self._subject_names[bisect_left(self._subject_names, subject)]

    def _unlink_references(self, record: SchemaRecord) -> None:
        for target in referenced(record):
            left = [other for other in self._referrers.get(target, ()) if other is not record]
            if left:
                self._referrers[target] = left
            else:
                self._referrers.pop(target, None)

    def _clear(self, name: str | None) -> None:
        for record in [record for record in self.matching(name) if record.deleted]:
            self._forget(record.subject, record.version)

    def _note_spelling(self, key: TopicKey, spelled: bytes, value: bytes | None) -> None:
        if spelled == topic_records.encode_key(key):
            return
        known = self._other_keys.setdefault(key, set())
        if value is None:
            known.discard(spelled)
        else:
            known.add(spelled)
        if not known:
            del self._other_keys[key]

    def keyed(self, key: TopicKey, value: bytes | None) -> tuple[tuple[bytes, bytes | None], ...]:
        """The records that make `value` the value of `key`, also for records under other spellings of it."""
        others = sorted(self._other_keys.get(key, ()))
        return (*((other, None) for other in others), (topic_records.encode_key(key), value))

    def context(self, name: str) -> ContextImage:
        """The context `name`, which is made where there is none."""
        found = self.contexts.get(name)
        if found is None:
            found = self.contexts[name] = ContextImage(name)
        return found

    def versions(self, subject: str) -> list[SchemaRecord]:
        """All versions of a subject, ascending, soft-deleted ones too. The list is the image's own."""
        context = self.contexts.get(context_of(subject))
        return context.subjects.get(subject, []) if context is not None else []

    def version(self, subject: str, version: int) -> SchemaRecord | None:
        """One version, also if it is soft-deleted."""
        context = self.contexts.get(context_of(subject))
        return context.version(subject, version) if context is not None else None

    def latest(self, subject: str) -> SchemaRecord | None:
        """The highest version that is not soft-deleted."""
        return next((record for record in reversed(self.versions(subject)) if not record.deleted), None)

    def referrers(self, subject: str, version: int) -> list[SchemaRecord]:
        """The versions that refer to this one, soft-deleted ones too."""
        return self._referrers.get((subject, version), [])

    def other_contexts(self) -> list[str]:
        """The names of all contexts but the default one, sorted."""
        return sorted(self.named_contexts - {DEFAULT_CONTEXT})

    def subject_names(self) -> list[str]:
        """All subjects, also of soft-deleted versions only, sorted. The list is the image's own."""
        if self._subject_names is None:
            self._subject_names = sorted(
                subject for context in self.contexts.values() for subject in context.subjects
            )
        return self._subject_names

    def matching(self, name: str | None) -> Iterator[SchemaRecord]:
        """The versions of a subject, of a context (`:.context:`), or of all contexts (None, `:.__GLOBAL:`).

        The empty name is the default context.
        """
        if name is None:
            for context in self.contexts.values():
                yield from context.records()
            return
        qualified = parse(name)
        if qualified.subject:
            yield from self.versions(name)
        elif qualified.context == GLOBAL_CONTEXT:
            yield from self.matching(None)
        elif (found := self.contexts.get(qualified.context)) is not None:
            yield from found.records()

    def has_subjects(self, name: str | None, deleted: bool) -> bool:
        """Whether `matching(name)` has a version; with `deleted`, soft-deleted ones count."""
        return any(deleted or not record.deleted for record in self.matching(name))

    def with_prefix(self, prefix: str) -> Iterator[str]:
        """The subjects that `has_prefix`, sorted."""
        if prefix == WILDCARD:
            return iter(self.subject_names())
        return (subject for subject in self.subject_names() if has_prefix(subject, prefix))

    def max_ids(self) -> dict[str, int]:
        """The highest id ever given in each context."""
        return {name: context.max_id for name, context in self.contexts.items() if context.max_id}

    def schema_count(self) -> int:
        """How many versions there are, soft-deleted ones too."""
        return sum(
            len(versions) for context in self.contexts.values() for versions in context.subjects.values()
        )


def _is_one_text(one: str, other: str) -> bool:
    """Whether two texts may share an id: other registries space and order JSON in more than one way."""
    if one == other:
        return True
    try:
        return bool(json.loads(one) == json.loads(other))
    except (ValueError, RecursionError):
        return False


def _set(members: dict[str | None, Value], name: str | None, value: Value | None) -> None:
    if value is None:
        members.pop(name, None)
    else:
        members[name] = value


def has_prefix(subject: str, prefix: str) -> bool:
    """Whether a listing by `prefix` has a subject.

    `:*:` is every subject, `:*:a` the subjects of all contexts that start with `a`, `:.c` the contexts whose
    names start with `.c`, `:.ctx:a` subjects of one context, and `a` subjects of the default context.
    """
    wanted, found = parse(prefix), parse(subject)
    if wanted.context == "*":
        return found.subject.startswith(wanted.subject)
    if prefix.startswith(CONTEXT_PREFIX) and ":" not in prefix[1:]:
        return found.context.startswith(wanted.context)
    return found.context == wanted.context and found.subject.startswith(wanted.subject)
