"""Routes below /subjects and /compatibility."""

from __future__ import annotations

from typing import Any

from bowstring.registry.api.call import (
    DELETED,
    DELETED_ONLY,
    FORMAT,
    NORMALIZE,
    PAGE,
    PREFIX,
    REFERENCE_FORMAT,
    Call,
    Right,
    Route,
    flag,
    require_readable,
)
from bowstring.registry.decision import Decision
from bowstring.registry.operations import (
    compatibility,
    deletion,
    lookup,
    registration,
    subjects,
    tagging,
    versions,
)
from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import WILDCARD
from bowstring.registry.registry_image import RegistryImage
from bowstring.web.openapi import Parameter

_TEXT = {"type": "string"}


def _list(image: RegistryImage, call: Call) -> Any:
    target, pages = call.target, call.page()
    prefix = target.text("subjectPrefix", WILDCARD)
    deleted, only = target.flag("deleted"), target.flag("deletedOnly")
    if call.may_read is None:
        return subjects.list_subjects(image, prefix, deleted=deleted, deleted_only=only, **pages)
    found = subjects.list_subjects(image, prefix, deleted=deleted, deleted_only=only)
    return page(filter(call.may_read, found), **pages, limit_max=image.defaults.page_limit)


def _look_up(image: RegistryImage, call: Call) -> Any:
    target = call.target
    return lookup.look_up(
        image,
        call.names["subject"],
        _tagged(image, call),
        normalize=target.flag("normalize"),
        format=target.text("format"),
        deleted=target.flag("deleted"),
    )


def _metadata(image: RegistryImage, call: Call) -> Any:
    target = call.target
    return versions.latest_with_metadata(
        image,
        call.names["subject"],
        target.texts("key"),
        target.texts("value"),
        format=target.text("format"),
        deleted=target.flag("deleted"),
    )


def _versions(image: RegistryImage, call: Call) -> Any:
    target = call.target
    return versions.list_versions(
        image,
        call.names["subject"],
        deleted=target.flag("deleted"),
        deleted_only=target.flag("deletedOnly"),
        deleted_as_negative=target.flag("deletedAsNegative"),
        **call.page(),
    )


def _version(image: RegistryImage, call: Call) -> Any:
    target = call.target
    return versions.schema_by_version(
        image,
        call.names["subject"],
        call.names["version"],
        format=target.text("format"),
        reference_format=target.text("referenceFormat"),
        deleted=target.flag("deleted"),
    )


def _version_text(image: RegistryImage, call: Call) -> Any:
    entity = _version(image, call)
    require_readable(call, entity["subject"])
    return entity["schema"]


def _referenced_by(image: RegistryImage, call: Call) -> Any:
    subject, version = call.names["subject"], call.names["version"]
    if call.may_read is not None:
        require_readable(call, versions.find_version(image, subject, version, deleted=True).subject)
    return versions.referenced_by(image, subject, version, deleted=call.target.flag("deleted"), **call.page())


def _tagged(image: RegistryImage, call: Call) -> Any:
    """Returns the body of a request with the tags that it names in its schema."""
    return tagging.with_tags(image, call.names["subject"], call.body)


def _tag_version(image: RegistryImage, call: Call) -> Decision:
    if call.may_read is not None:
        found = versions.find_version(image, call.names["subject"], call.names["version"], deleted=False)
        require_readable(call, found.subject)
    return tagging.decide_tag_version(image, call.names["subject"], call.names["version"], call.body)


def _known(image: RegistryImage, call: Call) -> Any:
    if isinstance(call.body, dict) and any(call.body.get(name) for name in tagging.MEMBERS):
        return None
    return registration.already_registered(
        image,
        call.names["subject"],
        call.body,
        normalize=call.target.flag("normalize"),
        format=call.target.text("format"),
    )


def _register(image: RegistryImage, call: Call) -> Decision:
    return registration.decide_register(
        image,
        call.names["subject"],
        _tagged(image, call),
        normalize=call.target.flag("normalize"),
        format=call.target.text("format"),
        force=call.target.flag("force"),
    )


def _delete_version(image: RegistryImage, call: Call) -> Decision:
    subject, version = call.names["subject"], call.names["version"]
    return deletion.decide_delete_version(image, subject, version, permanent=call.target.flag("permanent"))


def _delete_subject(image: RegistryImage, call: Call) -> Decision:
    return deletion.decide_delete_subject(
        image, call.names["subject"], permanent=call.target.flag("permanent")
    )


def _check_version(image: RegistryImage, call: Call) -> Any:
    return compatibility.check_version(
        image,
        call.names["subject"],
        call.names["version"],
        _tagged(image, call),
        normalize=call.target.flag("normalize"),
        verbose=call.target.flag("verbose"),
    )


def _check_subject(image: RegistryImage, call: Call) -> Any:
    return compatibility.check_subject(
        image,
        call.names["subject"],
        _tagged(image, call),
        normalize=call.target.flag("normalize"),
        verbose=call.target.flag("verbose"),
    )


_SUBJECT = "/subjects/{subject}"
_VERSIONS = f"{_SUBJECT}/versions"
_VERSION = f"{_VERSIONS}/{{version}}"
_CHECK = (NORMALIZE, flag("verbose", "Whether the answer says why."))
_PERMANENT = (flag("permanent", "Whether what is soft-deleted goes for good."),)
_REGISTER = (NORMALIZE, FORMAT, flag("force", "Whether compatibility is not checked."))
_NEGATIVE = flag("deletedAsNegative", "Whether soft-deleted ones count, too, with a minus.")
_LATEST = (
    Parameter("key", "Name of a property; may come several times.", {"type": "array", "items": _TEXT}),
    Parameter("value", "Value of the property at the same place.", {"type": "array", "items": _TEXT}),
    *(FORMAT, DELETED),
)
ROUTES = (
    Route(
        *("GET", "/subjects", "listSubjects", "Lists the names of subjects.", Right.READ, _list),
        query=(PREFIX, DELETED, DELETED_ONLY, *PAGE),
        answer="Texts",
        is_open=True,
    ),
    Route(
        *("POST", _SUBJECT, "lookUpSchema", "Shows the version that has a schema.", Right.READ, _look_up),
        query=(NORMALIZE, FORMAT, DELETED),
        body="NewSchema",
        answer="Schema",
    ),
    Route(
        *("DELETE", _SUBJECT, "deleteSubject", "Deletes a subject.", Right.DELETE),
        decide=_delete_subject,
        query=_PERMANENT,
        answer="Numbers",
    ),
    Route(
        *("GET", f"{_SUBJECT}/metadata", "getLatestWithMetadata"),
        *("Shows the latest version with some properties.", Right.READ, _metadata),
        query=_LATEST,
        answer="Schema",
    ),
    Route(
        *("GET", _VERSIONS, "listVersions", "Lists the versions of a subject.", Right.READ, _versions),
        query=(DELETED, DELETED_ONLY, _NEGATIVE, *PAGE),
        answer="Numbers",
    ),
    Route(
        *("POST", _VERSIONS, "registerSchema", "Registers a schema.", Right.WRITE),
        decide=_register,
        query=_REGISTER,
        body="NewSchema",
        answer="RegisteredSchema",
        checks=True,
        known=_known,
    ),
    Route(
        *("GET", _VERSION, "getVersion", "Shows a version of a subject.", Right.READ, _version),
        query=(FORMAT, REFERENCE_FORMAT, DELETED),
        answer="Schema",
    ),
    Route(
        *("DELETE", _VERSION, "deleteVersion", "Deletes a version of a subject.", Right.DELETE),
        decide=_delete_version,
        query=_PERMANENT,
        answer="Number",
    ),
    Route(
        *("POST", f"{_VERSION}/tags", "tagVersion", "Registers a version's schema with other tags."),
        Right.WRITE,
        decide=_tag_version,
        body="TagUpdate",
        answer="RegisteredSchema",
        checks=True,
    ),
    Route(
        *("GET", f"{_VERSION}/schema", "getSchemaOfVersion", "Shows the text of a version's schema."),
        *(Right.READ, _version_text),
        query=(FORMAT, REFERENCE_FORMAT, DELETED),
        answer="Text",
    ),
    Route(
        *("GET", f"{_VERSION}/referencedby", "getReferencedBy", "Lists the ids of schemas that refer to it."),
        *(Right.READ, _referenced_by),
        query=(DELETED, *PAGE),
        answer="Numbers",
    ),
    Route(
        *("POST", f"/compatibility{_VERSIONS}", "checkSubject", "Checks a schema against all versions."),
        *(Right.READ, _check_subject),
        query=_CHECK,
        body="NewSchema",
        answer="Check",
    ),
    Route(
        *("POST", f"/compatibility{_VERSION}", "checkVersion", "Checks a schema against a version."),
        *(Right.READ, _check_version),
        query=_CHECK,
        body="NewSchema",
        answer="Check",
    ),
)
