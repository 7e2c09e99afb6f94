"""Lists every declared API by key: its classes and versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final, NamedTuple, TypeVar

from bowstring.protocol.messages import API_MODULES, API_RANGES, UNSTABLE
from bowstring.protocol.schema import Request, Response, version_range

M = TypeVar("M", bound=Request | Response)


_NEVER: Final = 0x7FFF


class ApiRange(NamedTuple):
    """The versions of one API; see `Api`."""

    lowest: int
    highest: int
    highest_declared: int
    flexible_from: int


def api_range(key: int) -> ApiRange:
    """Returns the versions of a declared API, whose module is not imported."""
    declared, flexible = API_RANGES[key]
    lowest, highest = version_range(declared)
    flexible_from, flexible_to = version_range(flexible)
    flexible_from = max(lowest, flexible_from)
    return ApiRange(
        lowest,
        highest - 1 if key in UNSTABLE else highest,
        highest,
        flexible_from if flexible_from <= min(highest, flexible_to) else _NEVER,
    )


class Api(NamedTuple):
    """One API. `highest` is the highest version that may be offered; `highest_declared` is above it when
    Kafka marks the newest version as unstable. `flexible_from` is the first flexible version, or 0x7FFF
    without one.
    """

    key: int
    name: str
    lowest: int
    highest: int
    highest_declared: int
    flexible_from: int
    served_by: tuple[str, ...]
    request: type[Request]
    response: type[Response]


class ApiTable(Mapping[int, Api]):
    """Maps API keys to Api; a module is imported on first use."""

    def __init__(self, modules: Mapping[int, str]) -> None:
        self._modules = modules
        self._loaded: dict[int, Api] = {}

    def __getitem__(self, key: int) -> Api:
        api = self._loaded.get(key)
        if api is None:
            api = self._loaded[key] = _load(self._modules[key])
        return api

    def __iter__(self) -> Iterator[int]:
        return iter(self._modules)

    def __len__(self) -> int:
        return len(self._modules)

    def __contains__(self, key: object) -> bool:
        return key in self._modules


def _load(module_name: str) -> Api:
    module = import_module(f"bowstring.protocol.messages.{module_name}")
    name = "".join(word.capitalize() for word in module_name.split("_"))
    request: type[Request] = getattr(module, f"{name}Request")
    response: type[Response] = getattr(module, f"{name}Response")
    return Api(
        key=request.api_key,
        name=name,
        **api_range(request.api_key)._asdict(),
        served_by=request.served_by,
        request=request,
        response=response,
    )


API_VERSIONS = ApiTable(API_MODULES)
"""Api by API key, for every API declared, offered by the broker or not."""
