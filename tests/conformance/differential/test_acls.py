"""CreateAcls, DescribeAcls, DeleteAcls."""

from typing import Any

from tests.conformance.differential.compare import conversation, versions
from tests.conformance.differential.talk import Talk
from tests.support.access import ANY


def rule(**changes: Any) -> dict[str, Any]:
    return {
        "resource_type": 2,
        "resource_name": "t",
        "resource_pattern_type": 3,
        "principal": "User:a",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
        **changes,
    }


@conversation(versions("CreateAcls"))
def test_rules_that_are_added(talk: Talk) -> None:
    name = talk.name("added")
    rules = [
        rule(resource_name=name),
        rule(resource_name=name),
        rule(resource_name=name, resource_pattern_type=4, permission_type=2),
        rule(resource_name=name, host="10.0.0.0/8"),
        rule(resource_name=name, host="not an address"),
        rule(resource_name=name, principal="Group:x:y"),
        rule(resource_name=name, operation=2),
    ]
    talk.ask("CreateAcls", talk.version, creations=rules)
    talk.ask("CreateAcls", talk.version, note="again", creations=rules[:2])
    for each in rules[2:]:
        found = ANY | {
            "resource_name_filter": name,
            "principal_filter": each["principal"],
            "host_filter": each["host"],
        }
        found |= {"pattern_type_filter": each["resource_pattern_type"], "operation": each["operation"]}
        talk.ask("DescribeAcls", talk.version, note=str(each), **found)


@conversation(versions("CreateAcls"))
def test_rules_that_are_refused(talk: Talk) -> None:
    for change in (
        {"resource_name": ""},
        {"resource_type": 4},
        {"resource_type": 4, "resource_name": "kafka-cluster"},
        {"resource_type": 1},
        {"resource_type": 99},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"resource_pattern_type": 99},
        {"operation": 1},
        {"operation": 99},
        {"permission_type": 1},
        {"permission_type": 99},
        {"principal": "alice"},
        {"principal": ""},
        {"host": ""},
        {"host": "10.0.0.0/33"},
        {"host": "10.0.0/8"},
        {"host": "::1/200"},
    ):
        talk.ask("CreateAcls", talk.version, note=str(change), creations=[rule(**change)])


@conversation(versions("DeleteAcls"))
def test_rules_that_are_removed(talk: Talk) -> None:
    name = talk.name("removed")
    talk.ask(
        "CreateAcls",
        talk.version,
        creations=[rule(resource_name=name), rule(resource_name=name[:-1], resource_pattern_type=4)],
    )
    for change in (
        {"operation": 99},
        {"resource_type_filter": 99},
        {"resource_name_filter": name, "permission_type": 2},
        {"resource_name_filter": name, "pattern_type_filter": 3},
        {"resource_name_filter": name, "pattern_type_filter": 3},
        {"resource_name_filter": name, "pattern_type_filter": 4},
        {"resource_name_filter": name[:-1]},
    ):
        talk.ask("DeleteAcls", talk.version, note=str(change), filters=[ANY | change])
    talk.ask("DescribeAcls", talk.version, **ANY | {"resource_name_filter": name})
