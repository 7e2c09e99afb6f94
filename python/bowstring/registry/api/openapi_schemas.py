"""Defines the JSON Schemas of the registry's bodies, as a table: members of each, by name and type."""

from __future__ import annotations

from typing import Any

from bowstring.web.openapi import object_schema, type_schema

_NEW = {
    "version": "~?integer",
    "id": "~?integer",
    "schemaType": "~?string",
    "references": "~?SchemaReference[]",
    "metadata": "~?Metadata",
    "ruleSet": "~?RuleSet",
    "schema": "~?string",
    **dict.fromkeys(("schemaTagsToAdd", "schemaTagsToRemove"), "~?SchemaTags[]"),
    "propagateSchemaTags": "~?boolean",
}
_WRITTEN = {
    "guid": "string",
    "schemaType": "string",
    "references": "~SchemaReference[]",
    "metadata": "~Metadata",
    "schema": "string",
    "ts": "~integer",
    "deleted": "~boolean",
    "ruleSet": "~RuleSet",
}
_SETTINGS = {
    **dict.fromkeys(("alias", "aliasForDeks"), "~?string"),
    **dict.fromkeys(("normalize", "validateFields", "validateNewSchemas", "validateRules"), "~?boolean"),
    **dict.fromkeys(("compatibilityPolicy", "compatibilityGroup"), "~?string"),
    **dict.fromkeys(("defaultMetadata", "overrideMetadata"), "~?Metadata"),
    **dict.fromkeys(("defaultRuleSet", "overrideRuleSet"), "~?RuleSet"),
}
OBJECTS: dict[str, dict[str, str]] = {
    "Error": {"error_code": "integer", "message": "string"},
    "Empty": {},
    "SchemaReference": {"name": "string", "subject": "string", "version": "integer"},
    "Metadata": {
        "tags": "~?string[]{}",
        "properties": "~?string{}",
        "sensitive": "~?string[]",
    },
    "RuleSet": {
        **dict.fromkeys(("migrationRules", "domainRules", "encodingRules"), "~?Rule[]"),
        "enableAt": "~?string",
    },
    "Rule": {
        **dict.fromkeys(("name", "doc", "kind", "mode", "type"), "~?string"),
        "tags": "~?string[]",
        "params": "~?string{}",
        **dict.fromkeys(("expr", "onSuccess", "onFailure"), "~?string"),
        "disabled": "~?boolean",
    },
    "SchemaTags": {"schemaEntity": "SchemaEntity", "tags": "string[]"},
    "SchemaEntity": {"entityPath": "string", "entityType": "string"},
    "TagUpdate": {
        "newVersion": "~?integer",
        **dict.fromkeys(("tagsToAdd", "tagsToRemove"), "~?SchemaTags[]"),
        "metadata": "~?Metadata",
        **dict.fromkeys(("ruleSet", "rulesToMerge"), "~?RuleSet"),
        "rulesToRemove": "~?string[]",
    },
    "NewSchema": _NEW,
    "RegisteredSchema": {"id": "integer", "version": "integer", **_WRITTEN},
    "Schema": {
        "subject": "string",
        "version": "integer",
        "id": "integer",
        **_WRITTEN,
        "aliases": "~string[]",
    },
    "SchemaById": {"subject": "string", "version": "integer", **_WRITTEN, "maxId": "~integer"},
    "SchemaByGuid": _WRITTEN,
    "SubjectVersion": {"subject": "string", "version": "integer"},
    "ContextId": {"context": "string", "id": "integer"},
    "Check": {"is_compatible": "boolean", "messages": "~string[]"},
    "Config": {**_SETTINGS, "compatibilityLevel": "string"},
    "ConfigUpdate": {**_SETTINGS, "compatibility": "~?string"},
    "Mode": {"mode": "~string"},
    "ModeUpdate": {"mode": "?string"},
    "Cluster": {"scope": "object"},
    "Version": {"version": "string", "commitId": "string"},
    "Deployment": {"attributes": "string[]"},
}
LISTS = {
    "Texts": "string[]",
    "Numbers": "integer[]",
    "Schemas": "Schema[]",
    "SubjectVersions": "SubjectVersion[]",
    "ContextIds": "ContextId[]",
    "Number": "integer",
    # The text of a schema, as it is: JSON but for Protobuf.
    "Text": "any",
}
SCHEMAS: dict[str, Any] = {name: object_schema(members) for name, members in OBJECTS.items()} | {
    name: type_schema(text) for name, text in LISTS.items()
}
