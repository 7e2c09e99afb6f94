"""Routes that say what serves: the root, the cluster, the version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bowstring.registry.api.call import Call, Read, Right, Route
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

    def row(method: str, path: str, name: str, summary: str, read: Read, answer: str) -> Route:  # noqa: PLR0917
        return Route(method, path, name, summary, Right.READ, read, answer=answer, is_open=True)

    nothing = "Does nothing: says that the registry serves."
    return (
        row("GET", "/", "root", nothing, root, "Empty"),
        row("POST", "/", "postRoot", nothing, root, "Empty"),
        row("GET", "/v1/metadata/id", "getClusterId", "Shows the ids of the clusters.", cluster, "Cluster"),
        row("GET", "/v1/metadata/version", "getServerVersion", "Shows the version.", version, "Version"),
        row(
            *("GET", "/v1/metadata/deployment", "getDeployment", "Shows how the registry is deployed."),
            *(deployment, "Deployment"),
        ),
    )
