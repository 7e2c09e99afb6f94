"""Shows subjects of the schema registry, their versions, and each schema."""

from __future__ import annotations

import functools
import json
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bowstring.clients.registry.registered_schema import RegisteredSchema
from bowstring.clients.registry.registry_client import RegistryClient
from bowstring.clients.registry.registry_errors import SchemaRegistryError
from bowstring.console.cluster_facts import topics_of
from bowstring.console.paged import Paged
from bowstring.console.rendering import page
from bowstring.console.sessions import access_of, sessions_of
from bowstring.protocol.whole_numbers import whole_number

SUBJECTS_S = 2.0
TIMEOUT_S = 3.0
NO_REGISTRY = "The console has no schema registry: start it with --schema-registry http://host:8081."
_PARTS = ("-key", "-value")


class SubjectRow(NamedTuple):
    """A subject, and the topic whose records it is for; empty: not known by its name."""

    name: str
    topic: str
    part: str


@functools.cache
def _client(address: str) -> RegistryClient:
    return RegistryClient(address, timeout_s=TIMEOUT_S)


async def _subjects(request: Request) -> list[SubjectRow]:
    """Returns the subjects that the user may see.

    The registry has no users of the cluster. Where users sign in, a subject is shown to who may see the topic
    that it is named after.
    """
    access, options = access_of(request), sessions_of(request).options
    client = _client(options.schema_registry or "")
    names = await access.cached(("schema subjects",), SUBJECTS_S, lambda admin: client.subjects())
    topics = await topics_of(access)
    rows = []
    for name in names:
        topic, part = next(
            ((name.removesuffix(end), end[1:]) for end in _PARTS if name.endswith(end)), ("", "")
        )
        seen = topic in topics
        if seen or not options.sign_in:
            rows.append(SubjectRow(name, topic if seen else "", part if seen else ""))
    return rows


async def list_subjects(request: Request) -> Response:
    """Shows subjects."""
    wanted = request.query_params.get("q", "")
    rows: list[SubjectRow] = []
    missing = ""
    if sessions_of(request).options.schema_registry is None:
        missing = NO_REGISTRY
    else:
        try:
            rows = [each for each in await _subjects(request) if wanted.casefold() in each.name.casefold()]
        except SchemaRegistryError as error:
            missing = str(error)
    paged = Paged(request, rows, {"name": lambda row: row.name, "topic": lambda row: (row.topic, row.name)})
    return page(request, "schemas.html", paged=paged, missing=missing, wanted=wanted)


async def show_schema(request: Request) -> Response:
    """Shows a version of a subject; the newest without `?version=`."""
    access, name = access_of(request), request.query_params.get("subject", "")
    missing, versions = "", list[int]()
    schema: RegisteredSchema | None = None
    if sessions_of(request).options.schema_registry is None:
        missing = NO_REGISTRY
    else:
        client = _client(sessions_of(request).options.schema_registry or "")
        try:
            if name not in {each.name for each in await _subjects(request)}:
                missing = f"There is no subject {name!r}, or you may not see its topic."
            else:
                versions = await access.thread(client.versions, name)
                version = whole_number(request.query_params.get("version", str(versions[-1])))
                if version not in versions:
                    missing = f"Subject {name!r} has no such version."
                else:
                    schema = await access.thread(client.as_registered, name, version)
        except SchemaRegistryError as error:
            missing = str(error)
        except ValueError:
            missing = f"Subject {name!r} has no such version."
    return page(
        request,
        "schema.html",
        status=404 if missing.endswith(("its topic.", "such version.")) else 200,
        subject=name,
        versions=versions[::-1],
        schema=schema,
        text="" if schema is None else _spaced(schema),
        missing=missing,
    )


def _spaced(schema: RegisteredSchema) -> str:
    """Returns the text of a schema, of JSON with lines."""
    if schema.kind == "PROTOBUF":
        return schema.text
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text


routes = [
    Route("/schemas", list_subjects),
    Route("/schemas/one", show_schema),
]
