"""Refuses changes of this broker's configs after which a TLS listener could not use its keys (KIP-226)."""

import asyncio
from typing import TYPE_CHECKING, Any

from bowstring.engine.configs import ConfigError
from bowstring.engine.metadata.config_changes import DELETE, SET
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
        after = _changed(before, resource, is_replacing=isinstance(request.body, AlterConfigsRequest))
        default = image.resource_configs(BROKER_RESOURCE, "")
        try:
            await asyncio.get_running_loop().run_in_executor(None, tls.check_change, after, default)
        except ConfigError as error:
            refused[place] = KafkaError(Errors.INVALID_REQUEST, str(error))
    return refused


def _changed(before: Any, resource: Any, *, is_replacing: bool) -> dict[str, str]:
    """Returns the configs as they would be. What is no text for keys is left to the controller."""
    if is_replacing:
        return {each.name: each.value for each in resource.configs if each.value is not None}
    after = dict(before)
    for each in resource.configs:
        if each.config_operation == DELETE:
            after.pop(each.name, None)
        elif each.config_operation == SET and each.value is not None:
            after[each.name] = each.value
    return after
