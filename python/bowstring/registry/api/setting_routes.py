"""Routes below /config, /mode and /contexts."""

from __future__ import annotations

from typing import Any

from bowstring.registry.api.call import FORBIDDEN, PAGE, Call, Right, Route, flag
from bowstring.registry.decision import Decision
from bowstring.registry.operations import configs, contexts, modes
from bowstring.registry.operations.paging import page
from bowstring.registry.qualified_subject import context_of, parse
from bowstring.registry.registry_image import RegistryImage
from bowstring.web.http_error import HttpError
from bowstring.web.openapi import Parameter


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
    """An imported schema brings its id, and what others get is higher: that concerns the whole context."""
    around = parse(call.names.get("subject", "")).prefix
    mode = call.body.get("mode") if isinstance(call.body, dict) else None
    is_import = isinstance(mode, str) and mode.upper() == "IMPORT"
    if is_import and call.may_configure is not None and not call.may_configure(around):
        where = f"the context '{around}'" if around else "the global settings"
        raise HttpError(
            403,
            FORBIDDEN,
            f"import mode uses ids that all subjects share; the user lacks configure on {where}",
        )
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


def _both(
    method: str, path: str, name: str, summary: str, right: Right, **options: Any
) -> tuple[Route, Route]:
    """Returns the route of the global setting, and the one of a subject's."""
    return (
        Route(method, path, f"{name}Global", f"{summary} of all subjects.", right, **options),
        Route(method, f"{path}/{{subject}}", name, f"{summary} of a subject.", right, **options),
    )


_SCOPE = (flag("defaultToGlobal", "Whether what applies is shown where a subject has none of its own."),)
ROUTES = (
    *_both(
        *("GET", "/config", "getConfig", "Shows the config", Right.READ),
        read=_config,
        query=_SCOPE,
        answer="Config",
    ),
    *_both(
        *("PUT", "/config", "setConfig", "Changes the config", Right.CONFIGURE),
        decide=_set_config,
        body="ConfigUpdate",
        answer="ConfigUpdate",
    ),
    *_both(
        *("DELETE", "/config", "deleteConfig", "Deletes the config", Right.CONFIGURE),
        decide=_delete_config,
        answer="Config",
    ),
    *_both(
        *("GET", "/mode", "getMode", "Shows the mode", Right.READ), read=_mode, query=_SCOPE, answer="Mode"
    ),
    *_both(
        *("PUT", "/mode", "setMode", "Changes the mode", Right.CONFIGURE),
        decide=_set_mode,
        query=(flag("force", "Whether IMPORT is set although there are schemas."),),
        body="ModeUpdate",
        answer="ModeUpdate",
    ),
    *_both(
        *("DELETE", "/mode", "deleteMode", "Deletes the mode", Right.CONFIGURE),
        decide=_delete_mode,
        query=(flag("recursive", "Whether the modes of a context's subjects go, too."),),
        answer="Mode",
    ),
    Route(
        *("GET", "/contexts", "listContexts", "Lists the contexts.", Right.READ, _contexts),
        query=(Parameter("contextPrefix", "Only those that begin so."), *PAGE),
        answer="Texts",
        is_open=True,
    ),
    Route(
        *("DELETE", "/contexts/{subject}", "deleteContext", "Deletes a context without subjects."),
        Right.DELETE,
        decide=_delete_context,
        status=204,
    ),
)
