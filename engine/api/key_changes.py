"""Refuses changes of this broker's configs after which a TLS listener could not use its keys (KIP-226)."""

import asyncio
from typing import TYPE_CHECKING, Any

from bowstring.engine.configs import BrokerConfigs, ConfigError
from bowstring.engine.metadata.config_changes import Change, applied
from bowstring.engine.metadata.image import BROKER_RESOURCE
from bowstring.protocol.acls import CLUSTER_NAME, AclOperation, AclResourceType
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.alter_configs import AlterConfigsRequest

if TYPE_CHECKING:
    from bowstring.engine.metadata.image import ClusterImage
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer
    from bowstring.engine.security.tls_listeners import TlsListeners


async def refused_keys(
    request: "Request",
    node_id: int,
    image: "ClusterImage",
    tls: "TlsListeners | None",
    authorizer: "Authorizer",
    *,
    configs: BrokerConfigs,
) -> dict[int, KafkaError]:
    """Returns why resources of AlterConfigs or IncrementalAlterConfigs cannot be changed, by their place.

    Only changes by clients that may make them are looked at: for others the texts would say which files there
    are. Files are read on another thread.
    """
    refused: dict[int, KafkaError] = {}
    if tls is None:
        return refused
    for place, resource in enumerate(request.body.resources):
        if resource.resource_type != BROKER_RESOURCE or resource.resource_name != str(node_id):
            continue
        if not any("ssl." in each.name for each in resource.configs):
            continue
        of_cluster = AclOperation.ALTER_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME
        if not authorizer.allows(request, *of_cluster, counts=False):
            break  # the controller refuses them all
        before = image.resource_configs(BROKER_RESOURCE, resource.resource_name)
        try:
            is_replacing = isinstance(request.body, AlterConfigsRequest)
            after = _changed(configs, before, resource, is_replacing=is_replacing)
        except KafkaError:
            continue  # the controller says why
        default = image.resource_configs(BROKER_RESOURCE, "")
        try:
            await asyncio.get_running_loop().run_in_executor(None, tls.check_change, after, default)
        except ConfigError as error:
            refused[place] = KafkaError(Errors.INVALID_REQUEST, str(error))
    return refused


def _changed(configs: BrokerConfigs, before: Any, resource: Any, *, is_replacing: bool) -> dict[str, str]:
    """Returns the configs as they would be. What is no text for keys is left to the controller.

    Raises:
        KafkaError: A config does not have the operation.
    """
    if is_replacing:
        return {each.name: each.value for each in resource.configs if each.value is not None}
    after = dict(before)
    for each in resource.configs:
        change = Change(each.name, each.config_operation, each.value)
        value = applied(BROKER_RESOURCE, configs, after.get(each.name), change)
        if value is None:
            after.pop(each.name, None)
        else:
            after[each.name] = value
    return after
