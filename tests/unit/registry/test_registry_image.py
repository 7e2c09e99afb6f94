"""The image: what records come to, in every order and spelling."""

import contextlib
import logging
import random
import tracemalloc

import pytest

from bowstring.registry import topic_records as records
from bowstring.registry.operations import configs, contexts, deletion, modes, registration
from bowstring.registry.operations.schemas import schema_by_id
from bowstring.registry.registry_error import RegistryError
from bowstring.registry.registry_image import RegistryImage, has_prefix
from bowstring.registry.schema_record import SchemaRecord
from bowstring.registry.topic_records import TopicKey
from tests.support.registry_log import RegistryLog, compacted, said

SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}'


def schema_value(schema_id, text='"int"', subject="a", version=1, deleted=False):
    return records.encode_schema(SchemaRecord(subject, version, schema_id, "AVRO", text, deleted=deleted))


def test_records_at_offsets_that_were_applied_have_no_effect():
    log = RegistryLog()
    log.append(SCHEMA_KEY, schema_value(1))
    log.append(SCHEMA_KEY, None)
    log.image.apply(SCHEMA_KEY, schema_value(1), 0)
    assert log.image.version("a", 1) is None
    assert log.image.offset == 1


def test_unreadable_records_are_logged_and_ignored(caplog):
    log = RegistryLog()
    with caplog.at_level(logging.WARNING):
        log.append(b"x", b"{}")
        log.append(SCHEMA_KEY, b"{}")
        log.append(SCHEMA_KEY, schema_value(1, subject="b"))
        log.append(b'{"keytype":"CONFIG","magic":0}', b'{"normalize":"yes"}')
    assert len(caplog.records) == 4
    assert log.image.offset == 3
    assert log.image.schema_count() == 0


def test_an_id_of_another_schema_is_ignored():
    log = RegistryLog()
    log.append(SCHEMA_KEY, schema_value(1))
    log.append(records.encode_key(TopicKey("SCHEMA", "b", 1)), schema_value(1, '"long"', "b"))
    assert log.image.version("b", 1) is None
    assert [record.text for record in log.image.context(".").of_id(1)] == ['"int"']


def test_karapace_deletes_by_empty_values():
    log = RegistryLog()
    log.append(SCHEMA_KEY, schema_value(1))
    log.append(SCHEMA_KEY, b"")
    log.append(b'{"keytype":"CONFIG","subject":"a","magic":0}', b'{"compatibilityLevel":"FULL"}')
    log.append(b'{"keytype":"CONFIG","subject":"a","magic":0}', b"")
    assert (log.image.schema_count(), log.image.configs) == (0, {})


def test_texts_that_other_registries_space_in_two_ways_share_an_id():
    log = RegistryLog()
    texts = ('{"type":"array","items":"int"}', '{"items": "int", "type": "array"}')
    for subject, text in zip("ab", texts, strict=True):
        key = records.encode_key(TopicKey("SCHEMA", subject, 1))
        log.append(key, schema_value(1, text, subject))
    assert [record.text for record in log.image.context(".").of_id(1)] == list(texts)
    assert log.do(registration.decide_register, "c", {"schema": texts[0]})["id"] == 1
    assert log.do(registration.decide_register, "b", {"schema": texts[0]})["version"] == 1


def test_equal_texts_are_kept_once():
    log = RegistryLog()
    log.append(SCHEMA_KEY, schema_value(1))
    log.append(records.encode_key(TopicKey("SCHEMA", "b", 1)), schema_value(1, subject="b"))
    assert log.image.version("a", 1).text is log.image.version("b", 1).text


def test_keys_in_other_spellings_are_deleted_with_ours():
    log = RegistryLog()
    spelled = b'{"subject": "a", "version": 1, "magic": 1, "keytype": "SCHEMA"}'
    log.append(spelled, schema_value(1))
    log.do(deletion.decide_delete_subject, "a")
    log.do(deletion.decide_delete_subject, "a", permanent=True)
    assert (spelled, None) in [each[1:] for each in log.records]
    assert said(log.again(compacted(log.records))) == said(log.image)


def test_a_config_in_another_spelling_does_not_come_back_after_compaction():
    log = RegistryLog()
    log.append(b'{"subject": null, "magic": 0, "keytype": "CONFIG"}', b'{"compatibilityLevel": "NONE"}')
    log.do(configs.decide_set_config, None, {"compatibility": "FULL"})
    log.do(configs.decide_delete_config, None)
    assert log.again(compacted(log.records)).configs == log.image.configs == {}


def test_the_highest_id_survives_compaction():
    log = RegistryLog()
    for text in ('"int"', '"string"'):
        log.do(registration.decide_register, f"s-{text}", {"schema": text})
    for permanent in (False, True):
        log.do(deletion.decide_delete_subject, 's-"string"', permanent=permanent)
    log.image = log.again(compacted(log.records))
    assert log.do(registration.decide_register, "b", {"schema": '"long"'})["id"] == 3


def test_a_schema_takes_little_more_memory_than_its_text():
    """100,000 schemas of 1 KB are to stay below 300 MiB."""
    count, text = 2000, "x" * 1000
    entries = []
    for i in range(count):
        key = records.encode_key(TopicKey("SCHEMA", f"topic-{i}-value", 1))
        entries.append((key, schema_value(i + 1, f"{i}{text}", f"topic-{i}-value")))
    image = RegistryImage()
    tracemalloc.start()
    try:
        for offset, (key, value) in enumerate(entries):
            image.apply(key, value, offset, 1000)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < count * (len(text) + 1000)


@pytest.mark.parametrize(
    ("prefix", "subjects"),
    [
        (":*:", {"a", "ab", "b", ":.c:a", ":.cd:b"}),
        ("", {"a", "ab", "b"}),
        ("a", {"a", "ab"}),
        (":*:a", {"a", "ab", ":.c:a"}),
        (":.c", {":.c:a", ":.cd:b"}),
        (":.c:", {":.c:a"}),
        (":.c:b", set()),
        (":.:", {"a", "ab", "b"}),
    ],
)
def test_prefixes(prefix, subjects):
    assert {each for each in ("a", "ab", "b", ":.c:a", ":.cd:b") if has_prefix(each, prefix)} == subjects


SUBJECTS = ("a", "b", ":.c:a", ":.c:b")
TEXTS = ('"int"', '"long"', '"string"', '{"type":"array","items":"int"}')


class History:
    """Random requests, and what holds after each of them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.log = RegistryLog()
        self.meanings = {}  # of (context, id)

    def run(self, steps):
        for _ in range(steps):
            before = said(self.log.image)
            try:
                self.step()
            except RegistryError:
                assert said(self.log.image) == before
            self.check()
        assert said(self.log.again()) == said(self.log.image)
        left = self.log.again(compacted(self.log.records))
        assert said(left) == said(self.log.image)

    def step(self):
        do, choice = self.log.do, self.random.choice
        subject = choice(SUBJECTS)
        match self.random.randrange(12):
            case 0:
                do(deletion.decide_delete_version, subject, choice(("1", "2", "latest")))
            case 1:
                do(deletion.decide_delete_version, subject, choice(("1", "2", "3")), permanent=True)
            case 2:
                do(deletion.decide_delete_subject, subject)
            case 3:
                do(deletion.decide_delete_subject, subject, permanent=True)
            case 4:
                place = choice((*SUBJECTS, None, ":.c:", ":.__GLOBAL:"))
                do(modes.decide_set_mode, place, {"mode": choice(("READWRITE", "IMPORT", None))}, force=True)
            case 5:
                do(modes.decide_set_mode, choice((*SUBJECTS, ":.c:")), {"mode": "IMPORT"})
            case 6:
                do(configs.decide_set_config, choice((*SUBJECTS, None)), {"compatibility": "NONE"})
            case 7:
                do(contexts.decide_delete_context, ":.c:")
            case _:
                self.register(subject)

    def body(self, subject):
        body = {"schema": self.random.choice(TEXTS)}
        if self.random.random() < 0.3:
            body["references"] = [{"name": "x", "subject": self.random.choice("ab"), "version": -1}]
        if modes.mode_in_scope(self.log.image, subject) == "IMPORT":
            body |= {"id": self.random.randrange(1, 20), "version": self.random.randrange(1, 5)}
        return body

    def register_together(self, count):
        """Registers in one batch, as a leader does: each with the versions of those before it."""
        before = said(self.log.image)
        if self.random.random() < 0.5:  # an image whose subjects nobody has listed
            self.log.image = self.log.again()
        image, supposed, decisions = self.log.image, [], []
        for _ in range(count):
            subject = self.random.choice(SUBJECTS)
            try:
                decision = registration.decide_register(image, subject, self.body(subject))
            except RegistryError:
                continue
            if decision.added is not None:
                decisions.append(decision)
                supposed.append(image.suppose(decision.added))
        found = said(image)
        for each in reversed(supposed):
            image.retract(each)
        assert said(image) == before
        for each in decisions:
            self.log.keep(each)
        assert said(image) == found
        return len(decisions)

    def register(self, subject):
        body = self.body(subject)
        is_import = modes.mode_in_scope(self.log.image, subject) == "IMPORT"
        context = self.log.image.context(".c" if ":" in subject else ".")
        highest = context.max_id
        known = {record.md5: record.id for record in context.records()}
        answer = self.log.do(registration.decide_register, subject, body)
        record = next(each for each in context.of_id(answer["id"]) if each.subject == subject)
        if not is_import:
            assert answer["id"] == known.get(record.md5, answer["id"]) or self.has_ids(context, record)
            assert record.md5 in known or answer["id"] == highest + 1

    @staticmethod
    def has_ids(context, record):
        """Whether imports gave one schema several ids."""
        return len({each.id for each in context.records() if each.md5 == record.md5}) > 1

    def check(self):
        for context in self.log.image.contexts.values():
            for record in context.records():
                assert record.id <= context.max_id
                assert context.id_of(record.md5) is not None
                assert record in context.of_id(record.id)
        for record in self.log.image.matching(None):
            schema = schema_by_id(self.log.image, record.id, record.subject)
            assert schema["schema"] == record.text


@pytest.mark.parametrize("seed", range(30))
def test_histories(seed):
    History(seed).run(80)


@pytest.mark.parametrize("seed", range(10))
def test_versions_that_are_supposed_leave_no_trace(seed):
    history, most = History(seed), 0
    for _ in range(80):
        with contextlib.suppress(RegistryError):
            history.step()
        most = max(most, history.register_together(6))
    assert most > 1
    assert said(history.log.again()) == said(history.log.image)


@pytest.mark.parametrize("seed", range(10))
def test_without_imports_an_id_means_one_schema_for_ever(seed):
    history = History(seed)
    given = {}
    for _ in range(120):
        subject = history.random.choice(SUBJECTS)
        try:
            if history.random.random() < 0.4:
                for permanent in (False, True):
                    history.log.do(deletion.decide_delete_subject, subject, permanent=permanent)
            else:
                history.log.do(configs.decide_set_config, None, {"compatibility": "NONE"})
                history.register(subject)
        except RegistryError:
            pass
        if history.random.random() < 0.1:  # a new leader starts from what compaction left
            history.log.image = history.log.again(compacted(history.log.records))
        for context in history.log.image.contexts.values():
            for record in context.records():
                assert given.setdefault((context.name, record.id), record.md5) == record.md5
