"""Shows users, rules of access control and quotas, each in sentences; explains decisions; changes rules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.admin.acls import AclBinding, AclBindingFilter
from bowstring.clients.admin.scram_users import ScramCredentialInfo
from bowstring.clients.errors import BrokerError, ConfigError, UnsupportedApiError
from bowstring.console.paged import Paged
from bowstring.console.parts import part, why_refused
from bowstring.console.rendering import page
from bowstring.console.sessions import access_of
from bowstring.console.writes import writes
from bowstring.operations.acl_decision import Action, Decision
from bowstring.operations.acl_explanation import (
    PREFIXES,
    explanation,
    parse_operation,
    parse_resource,
    principal_of,
)
from bowstring.operations.acl_words import SUPPORTED, action_text, operation_word, sentence
from bowstring.operations.quota_words import quota_entity_text, quota_fields, quota_sentence
from bowstring.protocol.acls import (
    CLUSTER_NAME,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePatternType,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CACHE_S = 2.0
SEE_RIGHT, ALTER_RIGHT = "DESCRIBE on the cluster", "ALTER on the cluster"
QUOTAS_RIGHT = "DESCRIBE_CONFIGS on the cluster"
OPERATIONS = [operation_word(each) for each in AclOperation if each >= AclOperation.ALL]
LIMITS = {
    "producer_byte_rate": "bytes produced in a second",
    "consumer_byte_rate": "bytes fetched in a second",
    "request_percentage": "percent of a thread for requests",
    "controller_mutation_rate": "partitions created and deleted in a second",
    "connection_creation_rate": "connections in a second, of an address",
}
"""What a quota may limit, by its name."""
RULE_FIELDS = ("permission", "principal", "operation", "kind", "resource", "pattern", "host")


class UserRow(NamedTuple):
    """A user and how it logs in."""

    name: str
    credentials: list[ScramCredentialInfo]


class RuleRow(NamedTuple):
    """A rule, what it means, and its fields as the form to remove it has them."""

    rule: AclBinding
    meaning: str
    fields: Mapping[str, str]


class QuotaRow(NamedTuple):
    """A quota of somebody."""

    whose: str
    name: str
    value: float
    meaning: str
    fields: Mapping[str, str]


async def list_users(request: Request) -> Response:
    """Shows users that log in with SCRAM; no salts and no keys, which brokers do not send either."""
    access, wanted = access_of(request), request.query_params.get("q", "")
    found = await part(
        access.cached(("scram users",), CACHE_S, lambda admin: admin.describe_user_scram_credentials()),
        SEE_RIGHT,
    )
    rows = [
        UserRow(name, list(credentials))
        for name, credentials in (found.value or {}).items()
        if wanted.casefold() in name.casefold()
    ]
    paged = Paged(request, rows, {"name": lambda row: row.name})
    return page(request, "users.html", paged=paged, missing=found.missing, wanted=wanted)


async def list_acls(request: Request) -> Response:
    """Shows rules, with a sentence for each; and the form to add one."""
    access, given = access_of(request), request.query_params
    wanted = given.get("q", "")
    found = await part(access.cached(("acls",), CACHE_S, lambda admin: admin.describe_acls()), SEE_RIGHT)
    # Sentences of thousands of rules take long: only a filter needs them all.
    rules = [
        rule for rule in found.value or [] if not wanted or wanted.casefold() in sentence(rule).casefold()
    ]
    keys = {"resource": _by_resource, "principal": lambda rule: (rule.principal, _by_resource(rule))}
    paged = Paged(request, rules, keys)
    return page(
        request,
        "acls.html",
        paged=paged,
        rows=[RuleRow(rule, sentence(rule), rule_fields(rule)) for rule in paged.rows],
        missing=found.missing,
        wanted=wanted,
        operations=OPERATIONS,
        kinds=sorted(PREFIXES),
    )


def _by_resource(rule: AclBinding) -> tuple[Any, ...]:
    kind, pattern, operation = rule.resource_type, rule.resource_pattern_type, rule.operation
    return kind, rule.name, pattern, rule.principal, rule.host, operation, rule.permission_type


def rule_fields(rule: AclBinding) -> dict[str, str]:
    """Returns a rule as fields of a form."""
    return {
        "permission": rule.permission_type.name.lower(),
        "principal": rule.principal,
        "operation": operation_word(rule.operation),
        "kind": rule.resource_type.name.lower().replace("_", "-"),
        "resource": rule.name,
        "pattern": rule.resource_pattern_type.name.lower(),
        "host": rule.host,
    }


def rule_of(fields: FormData | QueryParams) -> AclBinding:
    """Returns the rule that the fields of a form stand for.

    Raises:
        ConfigError: a field is missing, or does not fit.
    """
    permission, principal, operation, kind, name, pattern, host = (
        str(fields.get(each, "")).strip() for each in RULE_FIELDS
    )
    chosen = PREFIXES.get(kind)
    if chosen is None:
        raise ConfigError(f"{kind!r} is not a resource: choose one of the list")
    if chosen is AclResourceType.CLUSTER:
        name, pattern = CLUSTER_NAME, "literal"
    if not principal or not name:
        raise ConfigError("a rule needs a principal and the name of a resource: * is every one")
    if permission not in ("allow", "deny") or pattern not in ("literal", "prefixed"):
        raise ConfigError("a rule allows or denies, and its name is literal or prefixed")
    parsed = parse_operation(operation)
    if parsed is not AclOperation.ALL and parsed not in SUPPORTED[chosen]:
        names = ", ".join(sorted(map(operation_word, SUPPORTED[chosen])))
        raise ConfigError(f"a {kind} has no operation {operation_word(parsed)}: {names}, all")
    who = principal_of(principal)
    if chosen is AclResourceType.USER:
        name = principal_of(name)
    return AclBinding(
        chosen,
        name,
        ResourcePatternType[pattern.upper()],
        who,
        host or "*",
        parsed,
        AclPermissionType[permission.upper()],
    )


async def ask_acl(request: Request) -> Response:
    """Shows what adding or removing a rule means."""
    given = request.query_params
    removes = given.get("change") == "remove"
    rule = rule_of(given)
    return page(
        request,
        "confirm_change.html",
        title="Remove this rule?" if removes else "Add this rule?",
        text=f"{sentence(rule)}. Rules hold at once, also for open connections.",
        action="/acls/remove" if removes else "/acls/add",
        fields=rule_fields(rule),
        button="Remove the rule" if removes else "Add the rule",
        back="/acls",
    )


@writes
async def add_acl(request: Request) -> Response:
    """Adds a rule."""
    return await _change(request, await request.form(), removes=False)


@writes
async def remove_acl(request: Request) -> Response:
    """Removes exactly one rule."""
    return await _change(request, await request.form(), removes=True)


async def _change(request: Request, fields: FormData, *, removes: bool) -> Response:
    access = access_of(request)
    try:
        rule = rule_of(fields)
        if removes:
            exactly = AclBindingFilter(
                rule.resource_type,
                rule.name,
                rule.resource_pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission_type,
            )
            await access.admin(lambda admin: admin.delete_acls([exactly]))
        else:
            await access.admin(lambda admin: admin.create_acls([rule]))
    except (BrokerError, ConfigError, UnsupportedApiError) as error:
        status = 403 if "AUTHORIZATION" in getattr(error, "name", "") else 400
        text = why_refused(error, ALTER_RIGHT)
        return page(request, "refused.html", status=status, text=text, back="/acls")
    access.forget("acls")
    return RedirectResponse("/acls", 303)


async def explain(request: Request) -> Response:
    """Says whether a principal may do something, and which rule decides."""
    access, given = access_of(request), request.query_params
    user, operation, resource = (given.get(name, "").strip() for name in ("user", "operation", "resource"))
    host = given.get("host", "").strip()
    decision: Decision | None = None
    answer = failure = ""
    if user:
        try:
            kind, name = parse_resource(resource)
            action = Action(principal_of(user), parse_operation(operation), kind, name, host or None)
        except ConfigError as error:
            failure = str(error)
        else:
            found = await part(
                access.admin(lambda admin: explanation(admin, action)),
                "DESCRIBE on the cluster, and DESCRIBE_CONFIGS on it",
            )
            decision, failure = found.value, found.missing
            if decision is not None:
                may = {True: "may", False: "may not", None: "perhaps may"}[decision.allowed]
                answer = f"{action.principal} {may} {action_text(action.operation, kind, name)}"
    return page(
        request,
        "acl_explain.html",
        user=user,
        operation=operation or "read",
        resource=resource,
        host=host,
        operations=OPERATIONS,
        decision=decision,
        answer=answer,
        others=[sentence(each) for each in decision.rules if each != decision.rule] if decision else [],
        failure=failure,
    )


async def list_quotas(request: Request) -> Response:
    """Shows quotas, with a sentence for each."""
    access, wanted = access_of(request), request.query_params.get("q", "")
    found = await part(
        access.cached(("quotas",), CACHE_S, lambda admin: admin.describe_client_quotas()), QUOTAS_RIGHT
    )
    rows = [
        QuotaRow(
            quota_entity_text(entity),
            name,
            value,
            quota_sentence(entity, name, value),
            quota_fields(entity, name, value),
        )
        for entity, quotas in (found.value or {}).items()
        for name, value in quotas.items()
    ]
    rows = [row for row in rows if wanted.casefold() in row.meaning.casefold()]
    paged = Paged(request, rows, {"whose": lambda row: (row.whose, row.name)})
    return page(request, "quotas.html", paged=paged, missing=found.missing, wanted=wanted, limits=LIMITS)


routes = [
    Route("/users", list_users),
    Route("/acls", list_acls),
    Route("/acls/change", ask_acl),
    Route("/acls/add", add_acl, methods=["POST"]),
    Route("/acls/remove", remove_acl, methods=["POST"]),
    Route("/acls/explain", explain),
    Route("/quotas", list_quotas),
]
