"""A registry without a topic: decisions go to a list of records, and from there to an image."""

import json

import pytest

from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage


def record_text(name="User", *fields):
    """An Avro record with optional fields of type string."""
    members = [{"name": field, "type": ["null", "string"], "default": None} for field in fields]
    return json.dumps({"type": "record", "name": name, "fields": members}, separators=(",", ":"))


def code(call, *arguments, **options):
    """The code with which a call is refused."""
    with pytest.raises(RegistryError) as caught:
        call(*arguments, **options)
    return caught.value.code


def compacted(records):
    """What is left of (offset, key, value) once only the last value of each key counts, tombstones gone."""
    last = {key: offset for offset, key, _ in records}
    return [each for each in records if last[each[1]] == each[0] and each[2] is not None]


class RegistryLog:
    """An image and the records that it is made of."""

    def __init__(self, defaults=None):
        self.defaults = defaults
        self.image = RegistryImage(defaults)
        self.records = []

    def do(self, decide, *arguments, **options):
        """Appends what `decide` decides, and gives its answer."""
        decision = decide(self.image, *arguments, **options)
        self.keep(decision)
        return decision.answer

    def keep(self, decision):
        """Appends the records of a decision; a leader does not read again what it added."""
        if decision.added is None:
            for key, value in decision.records:
                self.append(key, value)
            return
        offset = len(self.records)
        self.records.append((offset, *decision.records[0]))
        self.image.apply_added(decision.added, offset, 1000 + offset)

    def append(self, key, value):
        """Appends a record, as another registry might."""
        offset = len(self.records)
        self.records.append((offset, key, value))
        self.image.apply(key, value, offset, 1000 + offset)

    def again(self, records=None):
        """An image of these records, of all by default."""
        image = RegistryImage(self.defaults)
        for offset, key, value in self.records if records is None else records:
            image.apply(key, value, offset, 1000 + offset)
        return image


def said(image):
    """All that an image says, to compare."""
    return {
        "configs": image.configs,
        "modes": image.modes,
        "contexts": image.other_contexts(),
        "max ids": image.max_ids(),
        "versions": {
            (record.subject, record.version): (
                record.id,
                record.kind,
                record.text,
                record.deleted,
                record.md5,
            )
            for record in image.matching(None)
        },
        "ids": {
            (context.name, record.md5): context.id_of(record.md5)
            for context in image.contexts.values()
            for record in context.records()
        },
        "of ids": {
            (context.name, record.id): [(each.subject, each.version) for each in context.of_id(record.id)]
            for context in image.contexts.values()
            for record in context.records()
        },
        "referrers": {
            (record.subject, record.version): sorted(
                (each.subject, each.version) for each in image.referrers(record.subject, record.version)
            )
            for record in image.matching(None)
        },
        "subjects": list(image.subject_names()),
    }
