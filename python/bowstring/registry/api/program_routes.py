"""Routes that say what serves: the root, the cluster, the version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bowstring.registry.api.call import Call, Right, Route
from bowstring.registry.registry_image import RegistryImage
from bowstring.version import __version__

API_VERSION = "8.1.0"
"""Of Confluent's registry, whose API this one has."""


@dataclass(frozen=True, slots=True)
class ProgramFacts:
    """What the program says about itself.

    Attributes:
        cluster_id: of the cluster that keeps the schemas.
        group_id: of the registries that share them.
    """

    cluster_id: str
    group_id: str


def routes(facts: ProgramFacts) -> tuple[Route, ...]:
    """Returns the routes of a program."""

    def root(image: RegistryImage, call: Call) -> Any:
        return {}

    def cluster(image: RegistryImage, call: Call) -> Any:
        clusters = {"kafka-cluster": facts.cluster_id, "schema-registry-cluster": facts.group_id}
        return {"scope": {"path": [], "clusters": clusters}}

    def version(image: RegistryImage, call: Call) -> Any:
        return {"version": API_VERSION, "commitId": f"bowstring-{__version__}"}

    def deployment(image: RegistryImage, call: Call) -> Any:
        return {"attributes": []}

    return (
        Route("GET", "/", Right.READ, root, is_open=True),
        Route("POST", "/", Right.READ, root, is_open=True),
        Route("GET", "/v1/metadata/id", Right.READ, cluster, is_open=True),
        Route("GET", "/v1/metadata/version", Right.READ, version, is_open=True),
        Route("GET", "/v1/metadata/deployment", Right.READ, deployment, is_open=True),
    )
