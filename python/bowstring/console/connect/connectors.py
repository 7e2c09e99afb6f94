"""Reads what Kafka Connect answers about connectors, and checks it: everything in it is data of others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bowstring.console.connect.config_secrets import CLASS, VERSION
from bowstring.console.connect.connect_cluster import ConnectCluster, segment

LIST_S = 1.5
LIST_BYTES_MAX = 16 << 20
DEFINITION_S = 600.0
WHOLE = 1 << 30
"""Of texts that are cut once their secrets are replaced."""
TASKS_MAX = 500
PROBLEMS_MAX = 1_000
TEXT_MAX = 4_000
OFFSETS_MAX = 200
TOPICS_MAX = 1_000


class Task(NamedTuple):
    """A task of a connector. `trace`: why it failed, whole and with secrets; empty if it runs."""

    id: int
    state: str
    worker: str
    trace: str


class Connector(NamedTuple):
    """A connector as its cluster reports it, with secrets in config and traces. `kind`: source or sink."""

    name: str
    kind: str
    state: str
    worker: str
    trace: str
    tasks: Sequence[Task]
    config: Mapping[str, str]

    @property
    def plugin(self) -> str:
        """The class of the connector."""
        return self.config.get(CLASS, "")

    @property
    def failed(self) -> int:
        """How many tasks have failed."""
        return sum(each.state == "FAILED" for each in self.tasks)


class Plugin(NamedTuple):
    """A class of connectors that a cluster has."""

    name: str
    kind: str
    version: str


class OffsetRow(NamedTuple):
    """Where a connector goes on. Both are JSON."""

    partition: str
    offset: str


class ConfigProblem(NamedTuple):
    """What is wrong with a value of a config."""

    name: str
    errors: Sequence[str]


class Validation(NamedTuple):
    """What a plugin says about a config. `types`: of configs, by name. Errors may repeat secrets."""

    problems: Sequence[ConfigProblem]
    types: Mapping[str, str]


def text_of(value: Any, most: int = TEXT_MAX) -> str:
    """Returns text that an answer has; "" for none.

    Raises:
        TypeError: there is something else.
    """
    if value is None:
        return ""
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} stands where text must be")
    return value if len(value) <= most else f"{value[:most]}…"


def _config(value: Any) -> dict[str, str]:
    """Returns a whole config: what is shown for a change must not lack anything."""
    return {text_of(name, WHOLE): text_of(each, WHOLE) for name, each in value.items()}


def _task(value: Any, has_trace: bool) -> Task:
    if type(value["id"]) is not int:
        raise TypeError("the id of a task is no number")
    trace = text_of(value.get("trace"), WHOLE) if has_trace else ""
    return Task(value["id"], text_of(value["state"]), text_of(value.get("worker_id")), trace)


def _connector(name: str, status: Any, info: Any) -> Connector:
    head, config = status["connector"], _config(info["config"])
    return Connector(
        text_of(name),
        text_of(status.get("type") or info.get("type")),
        text_of(head["state"]),
        text_of(head.get("worker_id")),
        text_of(head.get("trace"), WHOLE),
        [_task(each, True) for each in status["tasks"][:TASKS_MAX]],
        config,
    )


async def connectors_of(cluster: ConnectCluster) -> list[Connector]:
    """Returns all connectors of a cluster, by name; of their configs only the class.

    Raises:
        ConnectError: the cluster does not answer, or refuses.
    """

    def read(answer: Any) -> list[Connector]:
        return [_listed(name, each["status"], each["info"]) for name, each in sorted(answer.items())]

    path = "/connectors?expand=status&expand=info"
    return await cluster.get(path, LIST_S, read, bytes_max=LIST_BYTES_MAX)


def _listed(name: str, status: Any, info: Any) -> Connector:
    """Returns a connector without traces, and with nothing of its config but the class."""
    head = status["connector"]
    return Connector(
        text_of(name),
        text_of(status.get("type") or info.get("type")),
        text_of(head["state"]),
        text_of(head.get("worker_id")),
        "",
        [_task(each, False) for each in status["tasks"][:TASKS_MAX]],
        {CLASS: text_of(info["config"].get(CLASS))},
    )


async def connector_of(cluster: ConnectCluster, name: str) -> Connector:
    """Returns one connector.

    Raises:
        ConnectError: there is none; the cluster does not answer, or refuses.
    """
    at = f"/connectors/{segment(name)}"
    info = await cluster.get(at, LIST_S, lambda answer: answer)
    return await cluster.get(f"{at}/status", LIST_S, lambda answer: _connector(name, answer, info))


async def config_of(cluster: ConnectCluster, name: str) -> dict[str, str]:
    """Returns the config of a connector as it is now, with its secrets. Raises like `connector_of`."""
    return await cluster.get(f"/connectors/{segment(name)}/config", 0.0, _config)


async def topics_of_connector(cluster: ConnectCluster, name: str) -> list[str]:
    """Returns the topics that a connector has used since it was created. Raises like `connector_of`."""

    def read(answer: Any) -> list[str]:
        return sorted(map(text_of, answer[name]["topics"][:TOPICS_MAX]))

    return await cluster.get(f"/connectors/{segment(name)}/topics", LIST_S, read)


async def offsets_of_connector(cluster: ConnectCluster, name: str) -> list[OffsetRow]:
    """Returns where a connector goes on, the first OFFSETS_MAX places. Raises like `connector_of`."""

    def read(answer: Any) -> list[OffsetRow]:
        return [
            OffsetRow(_json(each["partition"]), _json(each["offset"]))
            for each in answer["offsets"][:OFFSETS_MAX]
        ]

    return await cluster.get(f"/connectors/{segment(name)}/offsets", LIST_S, read)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


async def types_of(cluster: ConnectCluster, config: Mapping[str, str]) -> dict[str, str]:
    """Returns the types of the configs that the class of a config declares, by name; of the version that
    it asks for, which a Connect before KIP-891 does not look at. Raises like
    `connector_of`, also where a Connect before 3.2 has no list of them.
    """

    def read(answer: Any) -> dict[str, str]:
        return {text_of(each["name"]): text_of(each["type"]) for each in answer}

    path = f"/connector-plugins/{segment(config.get(CLASS, ''))}/config"
    if version := config.get(VERSION, ""):
        path += f"?version={segment(version)}"
    return await cluster.get(path, DEFINITION_S, read)


async def plugins_of(cluster: ConnectCluster) -> list[Plugin]:
    """Returns the classes of connectors that a cluster has, by name. Raises like `connector_of`."""

    def read(answer: Any) -> list[Plugin]:
        return sorted(
            Plugin(text_of(each["class"]), text_of(each.get("type")), text_of(each.get("version")))
            for each in answer
        )

    return await cluster.get("/connector-plugins", LIST_S, read)


async def validate(cluster: ConnectCluster, config: Mapping[str, str]) -> Validation:
    """Asks the plugin of a config what is wrong with it. Raises like `connector_of`."""

    def read(answer: Any) -> Validation:
        problems = []
        types = {}
        for each in answer["configs"]:
            name = text_of(each["value"]["name"])
            types[name] = text_of(each["definition"]["type"])
            if errors := [text_of(error, WHOLE) for error in each["value"]["errors"][:10]]:
                problems.append(ConfigProblem(name, errors))
        return Validation(problems[:PROBLEMS_MAX], types)

    path = f"/connector-plugins/{segment(config.get(CLASS, ''))}/config/validate"
    found = await cluster.change("PUT", path, dict(config), read)
    assert found is not None
    return found
