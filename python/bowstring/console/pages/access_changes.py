"""Adds and deletes users, and changes quotas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.datastructures import FormData, QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from bowstring.clients.admin.scram_users import (
    ITERATIONS_MIN,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from bowstring.clients.errors import BrokerError, ConfigError, UnsupportedApiError
from bowstring.console.pages.access import ALTER_RIGHT
from bowstring.console.parts import why_refused
from bowstring.console.rendering import page
from bowstring.console.sessions import access_of
from bowstring.console.writes import writes
from bowstring.operations.quota_words import QUOTA_PARTS, quota_fields, quota_sentence

if TYPE_CHECKING:
    from bowstring.clients.admin.admin import Admin

PASSWORD_CHARS_MAX = 1_000
MECHANISMS = {each.sasl_name: each for each in ScramMechanism}
QUOTAS_RIGHT = "ALTER_CONFIGS on the cluster"
QUOTA_FIELDS = ("whose", "name", "client", "quota", "value")


@writes
async def set_user(request: Request) -> Response:
    """Adds a user, or gives one a new password."""
    fields = await request.form()
    name, password, chosen = (str(fields.get(each, "")) for each in ("name", "password", "mechanism"))

    def change(admin: Admin) -> None:
        if not name.strip() or not password:
            raise ConfigError("a user needs a name and a password")
        if len(password) > PASSWORD_CHARS_MAX:
            raise ConfigError(f"a password has at most {PASSWORD_CHARS_MAX:,} characters here")
        if chosen not in MECHANISMS:
            raise ConfigError(f"the mechanism is one of {', '.join(MECHANISMS)}")
        credential = ScramCredentialInfo(MECHANISMS[chosen], ITERATIONS_MIN)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion(name.strip(), credential, password)])

    return await _changed(request, change, ALTER_RIGHT, "/users", "scram users")


async def ask_user(request: Request) -> Response:
    """Says what deleting a user means."""
    name = request.query_params.get("name", "")
    return page(
        request,
        "confirm_change.html",
        title=f"Delete user {name}?",
        text=f"{name} cannot log in any more. Connections that are open stay, and so do rules and quotas.",
        action="/users/delete",
        fields={"name": name},
        button="Delete the user",
        back="/users",
    )


@writes
async def delete_user(request: Request) -> Response:
    """Deletes all credentials of a user."""
    name = str((await request.form()).get("name", ""))

    def change(admin: Admin) -> None:
        found = admin.describe_user_scram_credentials([name]).get(name, [])
        if not found:
            raise ConfigError(f"there is no user {name!r} that logs in with SCRAM")
        for each in found:  # brokers refuse two of one user in a request
            admin.alter_user_scram_credentials([UserScramCredentialDeletion(name, each.mechanism)])

    return await _changed(request, change, ALTER_RIGHT, "/users", "scram users")


def quota_of(fields: FormData | QueryParams, *, has_value: bool) -> tuple[dict[str, str | None], str, float]:
    """Returns whose quota the fields of a form stand for, its name and its value.

    An empty name stands for everyone without a quota of their own.

    Raises:
        ConfigError: a field is missing, or does not fit.
    """
    whose, name, client, quota, value = (str(fields.get(each, "")).strip() for each in QUOTA_FIELDS)
    if whose not in QUOTA_PARTS:
        raise ConfigError(f"{whose!r} is nobody with a quota: choose one of the list")
    if not quota:
        raise ConfigError("choose which quota it is")
    names = [name or None, client or None]
    entity = dict(zip(QUOTA_PARTS[whose], names, strict=False))
    if not has_value:
        return entity, quota, 0.0
    try:
        number = float(value)
    except ValueError:
        raise ConfigError(f"the value {value!r} is not a number") from None
    if not math.isfinite(number) or number <= 0:
        raise ConfigError(f"{value} limits nothing sensible: give a number above 0, or remove the quota")
    return entity, quota, number


async def ask_quota(request: Request) -> Response:
    """Says what setting or removing a quota means."""
    given = request.query_params
    removes = given.get("change") == "remove"
    entity, quota, value = quota_of(given, has_value=True)
    text = quota_sentence(frozenset(entity.items()), quota, value)
    return page(
        request,
        "confirm_change.html",
        title="Remove this quota?" if removes else "Set this quota?",
        text=f"{text}. A change holds at once.",
        action="/quotas/remove" if removes else "/quotas/set",
        fields=quota_fields(frozenset(entity.items()), quota, value),
        button="Remove the quota" if removes else "Set the quota",
        back="/quotas",
    )


@writes
async def set_quota(request: Request) -> Response:
    """Sets a quota."""
    return await _change_quota(request, removes=False)


@writes
async def remove_quota(request: Request) -> Response:
    """Removes a quota."""
    return await _change_quota(request, removes=True)


async def _change_quota(request: Request, *, removes: bool) -> Response:
    fields = await request.form()

    def change(admin: Admin) -> None:
        entity, quota, value = quota_of(fields, has_value=not removes)
        wanted: Mapping[str, float | None] = {quota: None if removes else value}
        admin.alter_client_quotas(entity, wanted)

    return await _changed(request, change, QUOTAS_RIGHT, "/quotas", "quotas")


async def _changed(
    request: Request, change: Callable[[Admin], Any], right: str, back: str, kept: str
) -> Response:
    """Makes a change, and shows the list again; or why it was refused."""
    access = access_of(request)
    try:
        await access.admin(change)
    except (BrokerError, ConfigError, UnsupportedApiError) as error:
        status = 403 if "AUTHORIZATION" in getattr(error, "name", "") else 400
        return page(request, "refused.html", status=status, text=why_refused(error, right), back=back)
    access.forget(kept)
    return RedirectResponse(back, 303)


routes = [
    Route("/users/set", set_user, methods=["POST"]),
    Route("/users/delete", ask_user),
    Route("/users/delete", delete_user, methods=["POST"]),
    Route("/quotas/change", ask_quota),
    Route("/quotas/set", set_quota, methods=["POST"]),
    Route("/quotas/remove", remove_quota, methods=["POST"]),
]
