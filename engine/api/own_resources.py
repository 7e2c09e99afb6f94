"""Answers what of AlterConfigs and IncrementalAlterConfigs concerns the broker that got the request: log
levels, which only it has, and configs of other brokers, which it refuses. All else is the controller's.
"""

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from bowstring.engine.api import broker_loggers
from bowstring.engine.api.config_resources import BROKER_LOGGER, denial
from bowstring.engine.metadata.config_changes import Change
from bowstring.engine.metadata.image import BROKER_RESOURCE
from bowstring.protocol.acls import AclOperation
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from bowstring.protocol.messages.alter_configs import AlterConfigsResourceResponse as ReplacedResponse
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from bowstring.protocol.schema import Response
from bowstring.protocol.whole_numbers import whole_number

if TYPE_CHECKING:
    from bowstring.engine.requests.request import Request
    from bowstring.engine.security.authorizer import Authorizer


class OwnResources:
    """What of a request this broker answers itself, and the rest of it.

    Attributes:
        rest: The request for the controller; None if nothing is left for it. It checks what that needs.
    """

    def __init__(
        self,
        request: "Request",
        node_id: int,
        authorizer: "Authorizer",
        refused: Mapping[int, KafkaError] = MappingProxyType({}),
    ) -> None:
        """`refused`: why resources are refused, by their place."""
        body: AlterConfigsRequest | IncrementalAlterConfigsRequest = request.body
        operation = AclOperation.ALTER_CONFIGS
        self._logger_denial = partial(denial, authorizer, request, operation, BROKER_LOGGER)
        self._own: dict[int, Any] = {}
        self._is_replacing = isinstance(body, AlterConfigsRequest)
        resources: list[Any] = list(body.resources)
        for place, resource in enumerate(resources):
            kind = resource.resource_type
            if (kind == BROKER_LOGGER and not self._is_replacing) or (
                kind == BROKER_RESOURCE and resource.resource_name
            ):
                self._answer(place, resource, body, node_id, refused.get(place))
        self.rest: Any = body
        if self._own:
            rest = [each for place, each in enumerate(resources) if place not in self._own]
            self.rest = type(body)(resources=rest, validate_only=body.validate_only) if rest else None

    def _answer(
        self, place: int, resource: Any, body: Any, node_id: int, refused_for: KafkaError | None
    ) -> None:
        """Answers a resource, unless it is this broker's own configs."""
        error: KafkaError | None = None
        try:
            if resource.resource_type == BROKER_LOGGER and (
                refusal := self._logger_denial(resource.resource_name)
            ):
                raise KafkaError(refusal)
            _check_name(resource.resource_name, node_id)
            if refused_for is not None:
                raise refused_for
            if resource.resource_type == BROKER_RESOURCE:
                return
            changes = [Change(each.name, each.config_operation, each.value) for each in resource.configs]
            broker_loggers.alter(changes, validate_only=body.validate_only)
        except KafkaError as refused:
            error = refused
        make: Any = ReplacedResponse if self._is_replacing else AlterConfigsResourceResponse
        self._own[place] = make(
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            error_code=error.code if error is not None else 0,
            error_message=(error.detail or error.error.message) if error is not None else None,
        )

    @property
    def response(self) -> Response:
        """The answer to a request of which nothing is left for the controller."""
        kind = AlterConfigsResponse if self._is_replacing else IncrementalAlterConfigsResponse
        return kind(responses=self.among([]))

    def among(self, others: list[Any]) -> list[Any]:
        """Returns all answers in the order of the request, given those of the controller."""
        left = iter(others)
        return [
            self._own[place] if place in self._own else next(left)
            for place in range(len(self._own) + len(others))
        ]


def _check_name(name: str, node_id: int) -> None:
    number = whole_number(name.removeprefix("-"))
    if number is None:
        raise KafkaError(Errors.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if number != node_id or name.startswith("-"):
        raise KafkaError(
            Errors.INVALID_REQUEST, f"Unexpected broker id, expected {node_id}, but received {name}"
        )
