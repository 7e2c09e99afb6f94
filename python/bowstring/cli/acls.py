"""Implements `bowstring acls`: add, list, remove, explain."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import typer

from bowstring.cli.options import (
    BOOTSTRAP_DEFAULT,
    TIMEOUT_DEFAULT_S,
    Bootstrap,
    Json,
    Timeout,
    admin_at,
    with_groups,
)
from bowstring.cli.output import console, print_hint, print_json, print_note
from bowstring.cli.tables import safe
from bowstring.clients.admin.acls import AclBinding, AclBindingFilter
from bowstring.clients.errors import ClientError, ConfigError
from bowstring.operations.acl_decision import Action
from bowstring.operations.acl_explanation import explanation, parse_operation, parse_resource, principal_of
from bowstring.operations.acl_words import SUPPORTED, action_text, operation_word, resource_text, sentence
from bowstring.protocol.acls import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePatternType,
)

HELP = """\
Add, list, remove and explain rules of access control (ACLs).

A principal is written as `alice` or `User:alice`; `*` is everyone. A rule that denies wins over those that
allow. Rules hold at once, also for open connections.
"""

app = typer.Typer(help=HELP, no_args_is_help=True)


def _many(option: str, metavar: str, text: str) -> Any:
    return typer.Option(option, metavar=metavar, help=f"{text}; may be repeated.", show_default=False)


Allow = Annotated[list[str], _many("--allow", "USER", "Principal that may")]
Deny = Annotated[list[str], _many("--deny", "USER", "Principal that may not")]
Operations = Annotated[
    list[str], _many("--operation", "NAME", "Such as read, write, describe or all; default: all")
]
Hosts = Annotated[
    list[str],
    _many("--host", "ADDRESS", "Only for requests from this address or network (10.0.0.0/8); default: any"),
]
Prefixed = Annotated[
    bool, typer.Option("--prefixed", help="Names are beginnings: orders- is every name that begins so.")
]
Producer = Annotated[
    bool,
    typer.Option(
        "--producer", help="All that a producer needs: write, describe and create topics; transactional ids."
    ),
]
Consumer = Annotated[
    bool, typer.Option("--consumer", help="All that a consumer needs: read and describe topics; read groups.")
]
NONE: list[str] = []


class Resources(NamedTuple):
    """Options that name resources."""

    topic: Annotated[list[str], _many("--topic", "NAME", "Topic; * is every topic")] = NONE
    group: Annotated[list[str], _many("--group", "NAME", "Group; * is every group")] = NONE
    transactional_id: Annotated[
        list[str], _many("--transactional-id", "NAME", "Transactional id; * is every one")
    ] = NONE
    user: Annotated[list[str], _many("--user", "NAME", "User whose tokens are concerned")] = NONE
    token: Annotated[list[str], _many("--token", "ID", "Delegation token")] = NONE
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster itself.")] = False

    def chosen(self) -> list[tuple[AclResourceType, str]]:
        """Returns types with names."""
        found = [(AclResourceType.TOPIC, each) for each in self.topic]
        found += [(AclResourceType.GROUP, each) for each in self.group]
        found += [(AclResourceType.TRANSACTIONAL_ID, each) for each in self.transactional_id]
        found += [(AclResourceType.USER, principal_of(each)) for each in self.user]
        found += [(AclResourceType.DELEGATION_TOKEN, each) for each in self.token]
        return found + ([(AclResourceType.CLUSTER, CLUSTER_NAME)] if self.cluster else [])


EVERYTHING = Resources()

# Operations that the conveniences stand for, by resource, as in Kafka's AclCommand.
PRODUCING: Mapping[AclResourceType, Sequence[AclOperation]] = {
    AclResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    AclResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
CONSUMING: Mapping[AclResourceType, Sequence[AclOperation]] = {
    AclResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    AclResourceType.GROUP: (AclOperation.READ,),
}


def _operation(text: str) -> AclOperation:
    try:
        return parse_operation(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def _wanted(
    kind: AclResourceType, operations: Sequence[AclOperation], producer: bool, consumer: bool
) -> list[AclOperation]:
    """Returns the operations for a resource."""
    if not producer and not consumer:
        return list(operations or [AclOperation.ALL])
    wanted = [each for on, table in ((producer, PRODUCING), (consumer, CONSUMING)) if on
              for each in table.get(kind, ())]  # fmt: skip
    if not wanted:
        noun = kind.name.lower().replace("_", "-")
        raise typer.BadParameter(f"--{'producer' if producer else 'consumer'} has no operations for a {noun}")
    return list(dict.fromkeys(wanted))


def _rules(
    principals: Mapping[AclPermissionType, Iterable[str]],
    resources: Sequence[tuple[AclResourceType, str]],
    operations: Sequence[str],
    hosts: Iterable[str],
    *,
    prefixed: bool,
    producer: bool,
    consumer: bool,
) -> list[AclBinding]:
    """Returns the rules that options stand for.

    Raises:
        typer.BadParameter: options are missing, or do not go together.
    """
    if not any(principals.values()):
        raise typer.BadParameter("give --allow or --deny with a principal")
    if not resources:
        raise typer.BadParameter("give a resource: --topic, --group, --transactional-id, --cluster …")
    if operations and (producer or consumer):
        raise typer.BadParameter("give --operation, or --producer and --consumer, which name operations")
    if prefixed and any(kind is AclResourceType.CLUSTER for kind, _ in resources):
        raise typer.BadParameter("--prefixed and --cluster do not go together")
    parsed = [_operation(each) for each in operations]
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    rules = []
    for (kind, name), permission in itertools.product(resources, principals):
        for operation in _wanted(kind, parsed, producer, consumer):
            if operation is not AclOperation.ALL and operation not in SUPPORTED[kind]:
                names = ", ".join(sorted(map(operation_word, SUPPORTED[kind])))
                raise typer.BadParameter(
                    f"{resource_text(kind, name)} has no operation {operation_word(operation)}: {names}, all"
                )
            rules += [
                AclBinding(kind, name, pattern, principal_of(who), host, operation, permission)
                for who in principals[permission]
                for host in hosts or [WILDCARD]
            ]
    return rules


@app.command()
@with_groups
def add(
    allow: Allow = NONE,
    deny: Deny = NONE,
    operation: Operations = NONE,
    named: Resources = EVERYTHING,
    prefixed: Prefixed = False,
    host: Hosts = NONE,
    producer: Producer = False,
    consumer: Consumer = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Add rules, and say what each means. Rules that exist stay."""
    rules = _rules(
        {AclPermissionType.ALLOW: allow, AclPermissionType.DENY: deny},
        named.chosen(),
        operation,
        host,
        prefixed=prefixed,
        producer=producer,
        consumer=consumer,
    )
    with admin_at(bootstrap, timeout) as admin:
        admin.create_acls(rules)
    if json:
        print_json([_json(each) for each in rules])
        return
    for rule in rules:
        print_note(sentence(rule))


def _or_any(given: Iterable[Any], any_one: Any = None) -> list[Any]:
    """Returns what is given, else the one that stands for all."""
    return list(given) or [any_one]


@app.command("list")
@with_groups
def list_(
    principal: Annotated[
        list[str], _many("--principal", "USER", "Rules for this principal, without those for everyone")
    ] = NONE,
    named: Resources = EVERYTHING,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """List rules, in sentences: all, or those that apply to resources, also by a prefix or *."""
    resources = named.chosen()
    filters = [
        AclBindingFilter(kind, name, ResourcePatternType.MATCH, principal=who)
        if kind is not AclResourceType.ANY
        else AclBindingFilter(principal=who)
        for kind, name in resources or [(AclResourceType.ANY, "")]
        for who in _or_any(map(principal_of, principal))
    ]
    with admin_at(bootstrap, timeout) as admin:
        rules = sorted({rule for each in filters for rule in admin.describe_acls(each)})
    if json:
        print_json([_json(each) for each in rules])
        return
    if not rules:
        print_hint("there are no such rules" if resources or principal else "there are no rules")
    for rule in rules:
        console().print(safe(sentence(rule)), markup=False)


@app.command()
@with_groups
def remove(
    allow: Allow = NONE,
    deny: Deny = NONE,
    operation: Operations = NONE,
    named: Resources = EVERYTHING,
    prefixed: Prefixed = False,
    host: Hosts = NONE,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Remove rules, and say what each meant.

    Options that are left out match everything: `--allow alice` alone removes all rules that allow alice
    something.
    """
    who = [(AclPermissionType.ALLOW, principal_of(each)) for each in allow]
    who += [(AclPermissionType.DENY, principal_of(each)) for each in deny]
    resources = named.chosen()
    if not who and not resources:
        raise typer.BadParameter("say which rules: --allow, --deny, --topic, --group …")
    pattern = ResourcePatternType.PREFIXED if prefixed else ResourcePatternType.LITERAL
    any_resource = (AclResourceType.ANY, None)
    filters = [
        AclBindingFilter(
            kind,
            name,
            ResourcePatternType.ANY if name is None and not prefixed else pattern,
            principal=principal,
            host=address,
            operation=done,
            permission_type=permission,
        )
        for kind, name in _or_any(resources, any_resource)
        for permission, principal in _or_any(who, (AclPermissionType.ANY, None))
        for done in [_operation(each) for each in operation] or [AclOperation.ANY]
        for address in _or_any(host)
    ]
    with admin_at(bootstrap, timeout) as admin:
        rules = admin.delete_acls(filters)
    if json:
        print_json([_json(each) for each in rules])
        return
    if not rules:
        raise ClientError("there are no such rules; `bowstring acls list` shows those that are there")
    for rule in rules:
        print_note(f"no more: {sentence(rule)}")


@app.command()
def explain(
    user: Annotated[str, typer.Argument(metavar="USER", help="Principal, such as alice or User:alice.")],
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="Such as read.")],
    resource: Annotated[
        str,
        typer.Argument(
            metavar="RESOURCE",
            help="topic:NAME, group:NAME, transactional-id:NAME, token:ID, user:NAME or cluster.",
        ),
    ],
    host: Annotated[
        str | None,
        typer.Option("--host", metavar="ADDRESS", help="Where from; default: an address that no rule names."),
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    timeout: Timeout = TIMEOUT_DEFAULT_S,
    json: Json = False,
) -> None:
    """Say whether a principal may do something, and which rule decides. Exit code 1: it may not."""
    kind, name = _resource(resource)
    action = Action(principal_of(user), _operation(operation), kind, name, host)
    with admin_at(bootstrap, timeout) as admin:
        decision = explanation(admin, action)
    does = action_text(action.operation, kind, name)
    if json:
        print_json(
            {
                "allowed": decision.allowed,
                "reason": decision.reason,
                "rule": None if decision.rule is None else _json(decision.rule),
                "rules": [_json(each) for each in decision.rules],
            }
        )
    else:
        words = {True: "may", False: "may not", None: "perhaps may"}
        answer = f"{action.principal} {words[decision.allowed]} {does}: {decision.reason}"
        console().print(safe(answer), markup=False)
        others = [each for each in decision.rules if each != decision.rule]
        if others:
            console().print(safe(f"other rules for {resource_text(kind, name)}:"), markup=False)
        for rule in others:
            console().print(safe(f"  {sentence(rule)}"), markup=False)
    if decision.allowed is False:
        raise typer.Exit(1)


def _resource(text: str) -> tuple[AclResourceType, str]:
    try:
        return parse_resource(text)
    except ConfigError as error:
        raise typer.BadParameter(str(error)) from None


def _json(rule: AclBinding) -> dict[str, str]:
    return {
        "resource_type": rule.resource_type.name,
        "name": rule.name,
        "pattern_type": rule.resource_pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission_type": rule.permission_type.name,
        "meaning": sentence(rule),
    }
