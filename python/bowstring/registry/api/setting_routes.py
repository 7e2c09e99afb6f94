"""Routes below /config, /mode and /contexts."""

from __future__ import annotations

from typing import Any

from bowstring.registry.api.call import Call, Right, Route
from bowstring.registry.decision import Decision
from bowstring.registry.operations import configs, contexts, modes
from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import context_of
from bowstring.registry.registry_image import RegistryImage


def _config(image: RegistryImage, call: Call) -> Any:
    return configs.config(
        image, call.names.get("subject"), default_to_global=call.target.flag("defaultToGlobal")
    )


def _set_config(image: RegistryImage, call: Call) -> Decision:
    return configs.decide_set_config(image, call.names.get("subject"), call.body)


def _delete_config(image: RegistryImage, call: Call) -> Decision:
    return configs.decide_delete_config(image, call.names.get("subject"))


def _mode(image: RegistryImage, call: Call) -> Any:
    return modes.mode(image, call.names.get("subject"), default_to_global=call.target.flag("defaultToGlobal"))


def _set_mode(image: RegistryImage, call: Call) -> Decision:
    return modes.decide_set_mode(image, call.names.get("subject"), call.body, force=call.target.flag("force"))


def _delete_mode(image: RegistryImage, call: Call) -> Decision:
    return modes.decide_delete_mode(image, call.names.get("subject"), recursive=call.target.flag("recursive"))


def _contexts(image: RegistryImage, call: Call) -> Any:
    prefix = call.target.text("contextPrefix")
    if call.may_read is None:
        return contexts.list_contexts(image, prefix, **call.page())
    readable = {context_of(name) for name in image.with_prefix(":*:") if call.may_read(name)}
    found = (name for name in contexts.list_contexts(image, prefix) if name in readable)
    return page(found, **call.page(), limit_max=image.defaults.page_limit)


def _delete_context(image: RegistryImage, call: Call) -> Decision:
    return contexts.decide_delete_context(image, call.names["subject"])


def _both(method: str, path: str, right: Right, **options: Any) -> tuple[Route, Route]:
    """Returns the route of the global setting, and the one of a subject's."""
    return Route(method, path, right, **options), Route(method, f"{path}/{{subject}}", right, **options)


ROUTES = (
    *_both("GET", "/config", Right.READ, read=_config),
    *_both("PUT", "/config", Right.CONFIGURE, decide=_set_config, has_body=True),
    *_both("DELETE", "/config", Right.CONFIGURE, decide=_delete_config),
    *_both("GET", "/mode", Right.READ, read=_mode),
    *_both("PUT", "/mode", Right.CONFIGURE, decide=_set_mode, has_body=True),
    *_both("DELETE", "/mode", Right.CONFIGURE, decide=_delete_mode),
    Route("GET", "/contexts", Right.READ, _contexts, is_open=True),
    Route("DELETE", "/contexts/{subject}", Right.DELETE, decide=_delete_context, status=204),
)
