"""Lists and deletes contexts."""

from __future__ import annotations

from bowstring.registry import refusals
from bowstring.registry.decision import Decision
from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import DEFAULT_CONTEXT, normalized, parse
from bowstring.registry.registry_image import RegistryImage
from bowstring.registry.topic_records import CONTEXT, TopicKey


def list_contexts(image: RegistryImage, prefix: str = "", *, offset: int = 0, limit: int = -1) -> list[str]:
    """GET /contexts: the default context, then the others."""
    names = [DEFAULT_CONTEXT, *image.other_contexts()]
    return page((name for name in names if name.startswith(prefix)), offset, limit, image.defaults.page_limit)


def decide_delete_context(image: RegistryImage, context: str) -> Decision:
    """DELETE /contexts/{context}: of one without subjects, soft-deleted ones neither.

    Args:
        context: As `:.context:`.

    Raises:
        RegistryError: 42211.
    """
    name = normalized(context)
    if image.has_subjects(name, deleted=True):
        raise refusals.context_not_empty(name)
    found = parse(name).context
    records = image.keyed(TopicKey(CONTEXT, found), None) if found in image.named_contexts else ()
    return Decision(records, None)
