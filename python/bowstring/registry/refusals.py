"""Every refusal of the registry: its code in Confluent's REST API, and its message.

A row here is all that a new refusal needs. Codes: Confluent's `Errors` class, Schema Registry 8.
"""

from __future__ import annotations

from bowstring.registry.registry_error import RegistryError

INVALID_SCHEMA = 42201


def bad_request(reason: str) -> RegistryError:
    return RegistryError(400, 400, reason)


def subject_not_found(subject: str | None) -> RegistryError:
    return RegistryError(404, 40401, f"Subject '{subject}' not found.")


def version_not_found(version: int) -> RegistryError:
    return RegistryError(404, 40402, f"Version {version} not found.")


def schema_not_found(name: object = None) -> RegistryError:
    """`name`: the id or guid that was looked for."""
    return RegistryError(404, 40403, "Schema not found" if name is None else f"Schema {name} not found")


def subject_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        404, 40404, f"Subject '{subject}' is already soft-deleted; permanent=true deletes it permanently."
    )


def subject_not_soft_deleted(subject: str) -> RegistryError:
    return RegistryError(
        404, 40405, f"Subject '{subject}' must be soft-deleted before it can be deleted permanently."
    )


def version_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404,
        40406,
        f"Version {version} of subject '{subject}' is already soft-deleted; "
        "permanent=true deletes it permanently.",
    )


def version_not_soft_deleted(subject: str, version: int) -> RegistryError:
    return RegistryError(
        404,
        40407,
        f"Version {version} of subject '{subject}' must be soft-deleted before it is deleted permanently.",
    )


def subject_config_not_found(subject: str | None) -> RegistryError:
    return RegistryError(404, 40408, f"Subject '{subject}' has no config of its own.")


def subject_mode_not_found(subject: str | None) -> RegistryError:
    return RegistryError(404, 40409, f"Subject '{subject}' has no mode of its own.")


def incompatible_schema(subject: str, details: list[str]) -> RegistryError:
    return RegistryError(
        409,
        40901,
        f"The schema is incompatible with an earlier schema of subject '{subject}': " + "; ".join(details),
    )


def invalid_schema(reason: str) -> RegistryError:
    return RegistryError(422, INVALID_SCHEMA, reason)


def invalid_version(version: object) -> RegistryError:
    return RegistryError(
        422, 42202, f"'{version}' is not a version: use a whole number from 1 to 2^31-1, or \"latest\"."
    )


def invalid_compatibility_level(level: object) -> RegistryError:
    return RegistryError(
        422,
        42203,
        f"'{level}' is not a compatibility level: use NONE, BACKWARD, FORWARD, FULL, BACKWARD_TRANSITIVE, "
        "FORWARD_TRANSITIVE or FULL_TRANSITIVE.",
    )


def invalid_compatibility_policy(policy: object) -> RegistryError:
    return RegistryError(
        422,
        42203,
        f"'{policy}' is not a compatibility policy that this registry applies: use STRICT or LENIENT.",
    )


def invalid_mode(reason: str) -> RegistryError:
    return RegistryError(422, 42204, reason)


def not_permitted(reason: str) -> RegistryError:
    return RegistryError(422, 42205, reason)


def reference_exists(subject: str, version: int) -> RegistryError:
    return RegistryError(
        422, 42206, f"Other schemas refer to version {version} of subject '{subject}'; delete them first."
    )


def invalid_subject(subject: str) -> RegistryError:
    return RegistryError(422, 42208, f"'{subject}' is not a valid subject.")


def schema_too_large(reason: str) -> RegistryError:
    return RegistryError(422, 42209, reason)


def invalid_rule_set(reason: str) -> RegistryError:
    return RegistryError(422, 42210, reason)


def context_not_empty(context: str) -> RegistryError:
    return RegistryError(422, 42211, f"Context '{context}' has subjects; delete them permanently first.")


def store_failed(reason: str) -> RegistryError:
    return RegistryError(500, 50001, reason)


def timed_out(reason: str) -> RegistryError:
    return RegistryError(500, 50002, reason)
