"""Routes below /schemas."""

from __future__ import annotations

from typing import Any

from bowstring.registry.api.call import (
    DELETED,
    FORBIDDEN,
    FORMAT,
    PAGE,
    PREFIX,
    REFERENCE_FORMAT,
    SUBJECT,
    Call,
    Read,
    Right,
    Route,
    flag,
)
from bowstring.registry.operations import schemas
from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import QualifiedSubject
from bowstring.registry.registry_image import RegistryImage
from bowstring.web.http_error import HttpError
from bowstring.web.openapi import Parameter


def _list(image: RegistryImage, call: Call) -> Any:
    target = call.target
    chosen: dict[str, Any] = {
        "prefix": target.text("subjectPrefix"),
        "aliases": target.flag("aliases"),
        "deleted": target.flag("deleted"),
        "latest_only": target.flag("latestOnly"),
        "rule_type": target.text("ruleType"),
    }
    if call.may_read is None:
        return schemas.list_schemas(image, **chosen, **call.page())
    return page(_readable(image, call, chosen), **call.page(), limit_max=image.defaults.schema_limit)


def _readable(image: RegistryImage, call: Call, chosen: dict[str, Any]) -> Any:
    """Yields the schemas that the user may read."""
    assert call.may_read is not None
    start, step = 0, image.defaults.schema_limit
    while found := schemas.list_schemas(image, **chosen, offset=start, limit=step):
        yield from (each for each in found if call.may_read(each["subject"]))
        start += len(found)


def _require_id(image: RegistryImage, call: Call) -> tuple[int, str]:
    """Returns the id and the subject of a request.

    Raises:
        HttpError: 403, the user may read no subject with this schema.
    """
    schema_id, subject = call.id(), call.target.text("subject")
    if call.may_read is not None:
        found = schemas.subjects_of_id(image, schema_id, subject, deleted=True)
        if not any(map(call.may_read, found)):
            raise HttpError(403, FORBIDDEN, "the user may read no subject with this schema")
    return schema_id, subject


def _readable_id(image: RegistryImage, call: Call) -> tuple[int, str]:
    """Returns the id of a request, and a subject that the user may read.

    Raises:
        HttpError: 403, the user may read no subject with this schema.
    """
    schema_id, subject = _require_id(image, call)
    if call.may_read is None:
        return schema_id, subject
    record = schemas.find_id(image, schema_id, subject)
    if record is not None and call.may_read(record.subject):
        return schema_id, subject
    kept = schemas.subjects_of_id(image, schema_id, subject)
    deleted = schemas.subjects_of_id(image, schema_id, subject, deleted=True)
    return schema_id, next(filter(call.may_read, (*kept, *deleted)))


def _by_id(image: RegistryImage, call: Call) -> Any:
    schema_id, subject = _readable_id(image, call)
    target = call.target
    return schemas.schema_by_id(
        image,
        schema_id,
        subject,
        format=target.text("format"),
        reference_format=target.text("referenceFormat"),
        fetch_max_id=target.flag("fetchMaxId"),
    )


def _text_by_id(image: RegistryImage, call: Call) -> Any:
    schema_id, subject = _readable_id(image, call)
    return schemas.text_by_id(image, schema_id, subject, format=call.target.text("format"))


def _subjects_of_id(image: RegistryImage, call: Call) -> Any:
    schema_id, subject = _require_id(image, call)
    deleted = call.target.flag("deleted")
    if call.may_read is None:
        return schemas.subjects_of_id(image, schema_id, subject, deleted=deleted, **call.page())
    found = schemas.subjects_of_id(image, schema_id, subject, deleted=deleted)
    return page(filter(call.may_read, found), **call.page(), limit_max=image.defaults.page_limit)


def _versions_of_id(image: RegistryImage, call: Call) -> Any:
    schema_id, subject = _require_id(image, call)
    deleted = call.target.flag("deleted")
    if call.may_read is None:
        return schemas.versions_of_id(image, schema_id, subject, deleted=deleted, **call.page())
    found = schemas.versions_of_id(image, schema_id, subject, deleted=deleted)
    readable = (each for each in found if call.may_read(each["subject"]))
    return page(readable, **call.page(), limit_max=image.defaults.page_limit)


def _ids_of_guid(image: RegistryImage, call: Call) -> Any:
    guid, may_read = call.names["guid"], call.may_read
    found = schemas.ids_of_guid(image, guid)
    if may_read is None:
        return found
    readable = []
    for each in found:
        prefix = QualifiedSubject(each["context"], "").name
        if any(map(may_read, schemas.subjects_of_id(image, each["id"], prefix, deleted=True))):
            readable.append(each)
    if not readable:
        raise HttpError(403, FORBIDDEN, "the user may read no subject with this schema")
    return readable


def _by_guid(image: RegistryImage, call: Call) -> Any:
    if call.may_read is not None:
        _ids_of_guid(image, call)
    return schemas.schema_by_guid(image, call.names["guid"], format=call.target.text("format"))


def _kinds(image: RegistryImage, call: Call) -> Any:
    return schemas.kinds()


_ID = "/schemas/ids/{id}"
_GUID = "/schemas/guids/{guid}"
_LIST = (
    *(PREFIX, DELETED),
    flag("aliases", "Whether subjects that aliases stand for are listed, too."),
    flag("latestOnly", "Whether only the latest versions are listed."),
    Parameter("ruleType", "Only schemas with a rule of this type."),
    *PAGE,
)
_MAX_ID = flag("fetchMaxId", "Whether the answer has the highest id of the context.")


def _row(path: str, name: str, summary: str, read: Read, **options: Any) -> Route:
    return Route("GET", path, name, summary, Right.READ, read, is_open=True, **options)


ROUTES = (
    _row("/schemas", "listSchemas", "Lists versions of all subjects.", _list, query=_LIST, answer="Schemas"),
    _row("/schemas/types", "listSchemaTypes", "Lists the types of schemas.", _kinds, answer="Texts"),
    _row(
        *(_ID, "getSchemaById", "Shows the schema with an id.", _by_id),
        query=(SUBJECT, FORMAT, REFERENCE_FORMAT, _MAX_ID),
        answer="SchemaById",
    ),
    _row(
        *(f"{_ID}/schema", "getSchemaTextById", "Shows the text of the schema with an id.", _text_by_id),
        query=(SUBJECT, FORMAT),
        answer="Text",
    ),
    _row(
        *(f"{_ID}/subjects", "listSubjectsOfId", "Lists the subjects that have a schema.", _subjects_of_id),
        query=(SUBJECT, DELETED, *PAGE),
        answer="Texts",
    ),
    _row(
        *(f"{_ID}/versions", "listVersionsOfId", "Lists the versions that have a schema.", _versions_of_id),
        query=(SUBJECT, DELETED, *PAGE),
        answer="SubjectVersions",
    ),
    _row(
        *(_GUID, "getSchemaByGuid", "Shows the schema with a guid.", _by_guid),
        query=(FORMAT,),
        answer="SchemaByGuid",
    ),
    _row(f"{_GUID}/ids", "listIdsOfGuid", "Lists the ids of a guid.", _ids_of_guid, answer="ContextIds"),
)
