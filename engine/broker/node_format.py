"""Plans the formatting of a node's directories from its configs, and reads what formatting has written."""

from collections.abc import Mapping
from pathlib import Path

from bowstring.engine.broker.node import node_id_of
from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.configs.files import parse_properties
from bowstring.engine.quorum.formatting import FormatOptions, FormatPlan, plan_format
from bowstring.engine.quorum.settings import CONTROLLER, quorum_settings
from bowstring.engine.raft.voters import Endpoint, Endpoints
from bowstring.engine.requests.listeners import advertised_listeners, controller_listeners
from bowstring.engine.storage.log_directory import META_PROPERTIES
from bowstring.protocol.ids import parse_uuid


def format_plan(settings: Mapping[str, str], options: FormatOptions) -> FormatPlan:
    """Checks configs, options and directories; writes nothing.

    Raises:
        ConfigError, DataDirectoryError: The message says what is wrong and what to do.
    """
    configs = BrokerConfigs(settings)
    node_id = node_id_of(configs)
    quorum = quorum_settings(configs, node_id)
    endpoints = _endpoints(configs) if CONTROLLER in quorum.roles else ()
    return plan_format(configs, quorum, node_id, endpoints, options)


def _endpoints(configs: BrokerConfigs) -> Endpoints:
    told = advertised_listeners(configs, controller_listeners(configs))
    return tuple(Endpoint(each.name, each.host, each.port) for each in told)


def controller_ports(settings: Mapping[str, str]) -> list[int]:
    """Returns the ports of a node's listeners for controllers, as they are in the voters.

    Raises:
        ConfigError: The settings are wrong.
    """
    return [each.port for each in _endpoints(BrokerConfigs(settings))]


def controller_identity(settings: Mapping[str, str]) -> tuple[int, bytes, list[tuple[str, str, int]]]:
    """Returns a quorum's facts about a formatted controller: the id of its node and of its metadata
    directory, and name, host and port of its listeners.

    Raises:
        ConfigError: The node is no controller, or its directory is not formatted.
    """
    configs = BrokerConfigs(settings)
    node_id = node_id_of(configs)
    if CONTROLLER not in quorum_settings(configs, node_id).roles:
        raise ConfigError(f"node {node_id} is no controller: process.roles does not have that role")
    value = configs.value
    path = Path(value("metadata.log.dir") or (value("log.dirs") or value("log.dir"))[0]) / META_PROPERTIES
    try:
        text = path.read_text(encoding="utf-8")
        facts = {name: value for name, value, _ in parse_properties(text)}
        directory_id = parse_uuid(facts["directory.id"])
    except FileNotFoundError as error:
        raise ConfigError(f"{path.parent} is not formatted; run bowstring format first") from error
    except (OSError, KeyError, ValueError) as error:
        raise ConfigError(f"{path} has no directory.id that can be read: {error}") from error
    return node_id, directory_id, [(each.name, each.host, each.port) for each in _endpoints(configs)]
