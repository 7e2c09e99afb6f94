"""Plans the formatting of a node's directories from its configs."""

from collections.abc import Mapping

from bowstring.engine.broker.node import node_id_of
from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.quorum.formatting import FormatOptions, FormatPlan, plan_format
from bowstring.engine.quorum.settings import CONTROLLER, quorum_settings
from bowstring.engine.raft.voters import Endpoint, Endpoints
from bowstring.engine.requests.listeners import advertised_listeners, controller_listeners


def format_plan(settings: Mapping[str, str], options: FormatOptions) -> FormatPlan:
    """Checks configs, options and directories; writes nothing.

    Raises:
        ConfigError, DataDirectoryError: What is wrong, and what to do.
    """
    configs = BrokerConfigs(settings)
    node_id = node_id_of(configs)
    quorum = quorum_settings(configs, node_id)
    endpoints: Endpoints = ()
    if CONTROLLER in quorum.roles:
        told = advertised_listeners(configs, controller_listeners(configs))
        endpoints = tuple(Endpoint(each.name, each.host, each.port) for each in told)
    return plan_format(configs, quorum, node_id, endpoints, options)
