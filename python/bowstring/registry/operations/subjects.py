"""Lists subjects."""

from __future__ import annotations

from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import WILDCARD
from bowstring.registry.registry_image import RegistryImage


def list_subjects(
    image: RegistryImage,
    prefix: str = WILDCARD,
    *,
    deleted: bool = False,
    deleted_only: bool = False,
    offset: int = 0,
    limit: int = -1,
) -> list[str]:
    """GET /subjects.

    Args:
        prefix: See `registry_image.has_prefix`.
        deleted: Whether soft-deleted subjects are listed, too.
        deleted_only: Whether only they are.
    """
    return page(
        (
            subject
            for subject in image.with_prefix(prefix)
            if (deleted and not deleted_only) or (image.latest(subject) is None) == deleted_only
        ),
        offset,
        limit,
        image.defaults.page_limit,
    )
