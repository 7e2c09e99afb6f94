"""Routes below /subjects and /compatibility."""

from __future__ import annotations

from typing import Any

from bowstring.registry.api.call import Call, Right, Route, require_readable
from bowstring.registry.decision import Decision
from bowstring.registry.operations import compatibility, deletion, lookup, registration, subjects, versions
from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import WILDCARD
from bowstring.registry.registry_image import RegistryImage


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
        call.body,
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


def _known(image: RegistryImage, call: Call) -> Any:
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
        call.body,
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
        call.body,
        normalize=call.target.flag("normalize"),
        verbose=call.target.flag("verbose"),
    )


def _check_subject(image: RegistryImage, call: Call) -> Any:
    return compatibility.check_subject(
        image,
        call.names["subject"],
        call.body,
        normalize=call.target.flag("normalize"),
        verbose=call.target.flag("verbose"),
    )


_SUBJECT = "/subjects/{subject}"
_VERSIONS = f"{_SUBJECT}/versions"
ROUTES = (
    Route("GET", "/subjects", Right.READ, _list, is_open=True),
    Route("POST", _SUBJECT, Right.READ, _look_up, has_body=True),
    Route("DELETE", _SUBJECT, Right.DELETE, decide=_delete_subject),
    Route("GET", f"{_SUBJECT}/metadata", Right.READ, _metadata),
    Route("GET", _VERSIONS, Right.READ, _versions),
    Route("POST", _VERSIONS, Right.WRITE, decide=_register, has_body=True, known=_known),
    Route("GET", f"{_VERSIONS}/{{version}}", Right.READ, _version),
    Route("DELETE", f"{_VERSIONS}/{{version}}", Right.DELETE, decide=_delete_version),
    Route("GET", f"{_VERSIONS}/{{version}}/schema", Right.READ, _version_text),
    Route("GET", f"{_VERSIONS}/{{version}}/referencedby", Right.READ, _referenced_by),
    Route("POST", f"/compatibility{_VERSIONS}", Right.READ, _check_subject, has_body=True),
    Route("POST", f"/compatibility{_VERSIONS}/{{version}}", Right.READ, _check_version, has_body=True),
)
