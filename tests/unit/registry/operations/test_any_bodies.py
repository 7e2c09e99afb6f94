"""Requests of any content are answered or refused, and leave a log that gives the same image again."""

import json
import random

import pytest

from bowstring.registry.operations import (
    compatibility,
    configs,
    contexts,
    deletion,
    lookup,
    modes,
    registration,
    schemas,
    subjects,
    versions,
)
from bowstring.registry.registry_error import RegistryError
from tests.support.registry_log import RegistryLog, compacted, said

NAMES = (
    *(
        "schema",
        "schemaType",
        "references",
        "metadata",
        "ruleSet",
        "version",
        "id",
        "name",
        "subject",
        "tags",
    ),
    *(
        "properties",
        "sensitive",
        "domainRules",
        "migrationRules",
        "enableAt",
        "mode",
        "type",
        "kind",
        "alias",
    ),
    *(
        "compatibility",
        "compatibilityLevel",
        "normalize",
        "defaultMetadata",
        "overrideRuleSet",
        "validateFields",
    ),
    *("compatibilityGroup", "compatibilityPolicy", "params", "disabled", "expr", "onSuccess", "doc"),
)
TEXTS = (
    *(
        "",
        "a",
        "int",
        '"int"',
        "{",
        "null",
        "\ud800",
        "\x00",
        ":.c:a",
        ":",
        ":.",
        ":*:",
        ":.__GLOBAL:",
        "IMPORT",
    ),
    *(
        "FULL",
        "latest",
        "-1",
        "1",
        "AVRO",
        "JSON",
        "PROTOBUF",
        '{"type":"object"}',
        'syntax="proto3"; message M {}',
    ),
)
SUBJECTS = (
    "a",
    "b",
    ":.c:a",
    ":.c:",
    ":.c",
    ":.",
    "",
    ":*:a",
    ":.:a",
    "x\x00",
    "__GLOBAL",
    ":.__GLOBAL:",
    "\ud800",
)
VERSIONS = ("1", "2", "latest", "-1", "0", "x", "9" * 20, " 1 ", "+1", "１")


class Requests:
    """Random requests to one registry."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.log = RegistryLog()

    def value(self, depth=0):
        choose = self.random.randrange(11 if depth < 3 else 8)
        if choose < 8:
            number = 2 ** self.random.randrange(70)
            return [None, True, False, -1, number, 1.5, self.random.choice(TEXTS), 1][choose]
        if choose == 8:
            return [self.value(depth + 1) for _ in range(2)]
        return self.members(depth + 1)

    def members(self, depth=0):
        return {self.random.choice(NAMES): self.value(depth) for _ in range(self.random.randrange(5))}

    def body(self):
        body = self.members()
        if self.random.random() < 0.7:
            body["schema"] = self.random.choice(TEXTS)
        if self.random.random() < 0.3:
            body["references"] = [{"name": "x", "subject": self.random.choice(SUBJECTS), "version": 1}]
        return body if self.random.random() < 0.9 else self.value()

    def one(self):
        """One request, written as a function of a registry."""
        image, do, flag = self.log.image, self.log.do, self.random.random() < 0.5
        subject, version, body = self.random.choice(SUBJECTS), self.random.choice(VERSIONS), self.body()
        place = self.random.choice((None, subject))
        mode = {
            "mode": self.random.choice((None, "IMPORT", "READWRITE", "READWRITE", "READONLY", "FORWARD", 1))
        }
        schema_id = self.random.randrange(8)
        return self.random.choice(
            [
                *[lambda: do(registration.decide_register, subject, body, normalize=flag)] * 6,
                lambda: do(registration.decide_register, subject, body, format="resolved", force=True),
                lambda: registration.already_registered(image, subject, body),
                lambda: lookup.look_up(image, subject, body, deleted=flag),
                lambda: compatibility.check_subject(image, subject, body, verbose=flag),
                lambda: compatibility.check_version(image, subject, version, body, verbose=flag),
                lambda: do(configs.decide_set_config, place, body),
                lambda: do(configs.decide_delete_config, place),
                lambda: configs.config(image, place, default_to_global=flag),
                lambda: do(modes.decide_set_mode, place, mode, force=flag),
                lambda: do(modes.decide_set_mode, place, body),
                lambda: do(modes.decide_delete_mode, place, recursive=flag),
                lambda: modes.mode(image, place),
                lambda: do(deletion.decide_delete_version, subject, version, permanent=flag),
                lambda: do(deletion.decide_delete_subject, subject, permanent=flag),
                lambda: do(contexts.decide_delete_context, subject),
                lambda: subjects.list_subjects(image, subject, deleted=flag, offset=schema_id - 1),
                lambda: versions.list_versions(image, subject, deleted=flag),
                lambda: versions.schema_by_version(image, subject, version, reference_format="qualified"),
                lambda: versions.referenced_by(image, subject, version),
                lambda: versions.latest_with_metadata(image, subject, ["a"], ["b"]),
                lambda: schemas.list_schemas(image, subject, aliases=flag, deleted=True),
                lambda: schemas.schema_by_id(image, schema_id, subject, fetch_max_id=True),
                lambda: schemas.versions_of_id(image, schema_id, subject),
            ]
        )


@pytest.mark.parametrize("seed", range(6))
def test_any_requests(seed):
    requests = Requests(seed)
    answered = 0
    for _ in range(500):
        try:
            json.dumps(requests.one()()).encode()
            answered += 1
        except RegistryError as error:
            assert 400 <= error.status < 500
    assert answered > 100
    log = requests.log
    assert said(log.again()) == said(log.image)
    assert said(log.again(compacted(log.records))) == said(log.image)
