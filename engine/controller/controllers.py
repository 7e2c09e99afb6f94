"""Registers controllers, so that features are raised only when all voters have them (KIP-919)."""

from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.errors import Errors, KafkaError
from bowstring.engine.metadata.features import CONTROLLER_REGISTRATIONS_SINCE
from bowstring.engine.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from bowstring.engine.protocol.records.cluster_metadata.nodes import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
)


def register_controller(
    state: ControllerState, request: ControllerRegistrationRequest
) -> Decision[ControllerRegistrationResponse]:
    """Registers a controller, or replaces its registration.

    Raises:
        KafkaError: UNSUPPORTED_VERSION: metadata.version is older than registrations of controllers.
    """
    if state.metadata_version < CONTROLLER_REGISTRATIONS_SINCE:
        raise KafkaError(
            Errors.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller registrations.",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse(error_message=None))
