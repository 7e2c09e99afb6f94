"""Registers controllers, so that features are raised only when all voters have them (KIP-919), and removes
registrations of those that are gone (KIP-1312).
"""

from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.features import (
    CONTROLLER_REGISTRATIONS_SINCE,
    CONTROLLER_UNREGISTRATIONS_SINCE,
)
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)
from bowstring.protocol.messages.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from bowstring.protocol.records.cluster_metadata.nodes import (
    ControllerEndpoint,
    ControllerFeature,
    RegisterControllerRecord,
    UnregisterControllerRecord,
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


def unregister_controller(
    state: ControllerState, request: UnregisterControllerRequest
) -> Decision[UnregisterControllerResponse]:
    """Removes the registration of a controller. One that still runs registers again when it next starts.

    Raises:
        KafkaError: INVALID_REQUEST: it is the active controller, this one. UNSUPPORTED_VERSION:
            metadata.version is older than such removals. CONTROLLER_ID_NOT_REGISTERED.
    """
    removed = request.controller_id
    if removed == state.node_id:
        raise KafkaError(Errors.INVALID_REQUEST, "Controller cannot unregister itself while it is active.")
    if state.metadata_version < CONTROLLER_UNREGISTRATIONS_SINCE:
        raise KafkaError(
            Errors.UNSUPPORTED_VERSION,
            "The current MetadataVersion is too old to support controller unregistration.",
        )
    registered = state.image.kept.of(RegisterControllerRecord)
    if all(
        each.controller_id != removed for each in registered if isinstance(each, RegisterControllerRecord)
    ):
        raise KafkaError(
            Errors.CONTROLLER_ID_NOT_REGISTERED, f"Controller ID {removed} is not currently registered."
        )
    return Decision(
        [UnregisterControllerRecord(controller_id=removed)], UnregisterControllerResponse(error_message=None)
    )
