"""What requests of the registry's REST API do, as functions over a RegistryImage; none does I/O.

Reads answer what JSON takes. Writes are named `decide_…` and return a Decision; the node appends its records
and then gives its answer. Both raise RegistryError. Subjects are qualified (`:.context:subject`); `None` and
the empty context are the global settings. `body` is the JSON object of a request. What has a default goes by
keyword.

Reads:
    subjects.list_subjects(image, prefix=":*:", deleted=False, deleted_only=False, offset=0, limit=-1)
    versions.list_versions(image, subject, deleted=False, deleted_only=False, deleted_as_negative=False,
        offset=0, limit=-1)
    versions.schema_by_version(image, subject, version, format="", reference_format="", deleted=False)
    versions.text_by_version(image, subject, version, format="", deleted=False)
    versions.referenced_by(image, subject, version, deleted=False, offset=0, limit=-1)
    versions.latest_with_metadata(image, subject, keys, values, format="", deleted=False)
    schemas.list_schemas(image, prefix="", aliases=False, deleted=False, latest_only=False, rule_type="",
        offset=0, limit=-1)
    schemas.schema_by_id(image, schema_id, subject="", format="", reference_format="", fetch_max_id=False)
    schemas.text_by_id(image, schema_id, subject="", format="")
    schemas.subjects_of_id(image, schema_id, subject="", deleted=False, offset=0, limit=-1)
    schemas.versions_of_id(image, schema_id, subject="", deleted=False, offset=0, limit=-1)
    schemas.schema_by_guid(image, guid, format="")
    schemas.ids_of_guid(image, guid)
    schemas.kinds()
    lookup.look_up(image, subject, body, normalize=False, format="", deleted=False)
    compatibility.check_version(image, subject, version, body, normalize=False, verbose=False)
    compatibility.check_subject(image, subject, body, normalize=False, verbose=False)
    configs.config(image, subject=None, default_to_global=False)
    modes.mode(image, subject=None, default_to_global=False)
    contexts.list_contexts(image, prefix="", offset=0, limit=-1)
    aliases.resolve(image, subject): what a subject in a path or in `?subject=` of schemas/ids stands for
    registration.already_registered(image, subject, body, normalize=False, format=""): the answer of a
        registration that needs no write, or None; any node may give it before it asks the leader
    tagging.with_tags(image, subject, body): the body with the tags that it names in its schema

Writes:
    registration.decide_register(image, subject, body, normalize=False, format="", force=False)
    tagging.decide_tag_version(image, subject, version, body)
    deletion.decide_delete_version(image, subject, version, permanent=False)
    deletion.decide_delete_subject(image, subject, permanent=False)
    configs.decide_set_config(image, subject, body)
    configs.decide_delete_config(image, subject)
    modes.decide_set_mode(image, subject, body, force=False)
    modes.decide_delete_mode(image, subject, recursive=False)
    contexts.decide_delete_context(image, context): the answer is None, for status 204

Imported by: registry.api.
May import: protocol, registry, schemas.
"""
