"""Registers brokers, takes their heartbeats, fences and unregisters them (KIP-631).

Follows Kafka's ClusterControlManager and BrokerHeartbeatManager.
"""

from typing import TYPE_CHECKING, Final

from bowstring.engine.controller import leader_updates
from bowstring.engine.controller.decision import Decision
from bowstring.engine.controller.sessions import BrokerSession
from bowstring.engine.controller.state import ControllerState
from bowstring.engine.metadata.directory_ids import is_reserved
from bowstring.engine.metadata.features import CORDONED_DIRECTORIES_SINCE, DIRECTORIES_SINCE
from bowstring.engine.metadata.image import BrokerImage
from bowstring.protocol.errors import Errors, KafkaError
from bowstring.protocol.features import METADATA_VERSION
from bowstring.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from bowstring.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from bowstring.protocol.records.cluster_metadata.nodes import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from bowstring.protocol.schema import MetadataRecord

if TYPE_CHECKING:
    from bowstring.protocol.messages.unregister_broker import (
        UnregisterBrokerRequest,
        UnregisterBrokerResponse,
    )

_CLEAN_SHUTDOWN_SINCE: Final = 3


# ------------------------------------------------------------ registration


def register(
    state: ControllerState,
    request: BrokerRegistrationRequest,
    version: int,
    next_offset: int,
    now_ms: int,
    *,
    is_own: bool = False,
) -> Decision[BrokerRegistrationResponse]:
    """Registers a broker, fenced until its heartbeats report that it has caught up. The same incarnation may
    register again and keeps its epoch.

    Args:
        version: Of the request; since 3 a broker says in which epoch it stopped cleanly.
        next_offset: Of the next record of the log; the epoch of a new incarnation.
        is_own: It is the broker in this process, which holds the directories of its former incarnation: that
            one has ended, and its session is not waited for. Kafka waits, also on a node alone.

    Raises:
        KafkaError: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED,
            INVALID_REGISTRATION, UNSUPPORTED_VERSION.
    """
    _check_registration(state, request, now_ms, is_own=is_own)
    broker = request.broker_id
    existing = state.image.brokers.get(broker)
    record = _registration(state, request)
    records: list[MetadataRecord] = []
    if existing is None or existing.incarnation_id != request.incarnation_id:
        is_clean = (
            version >= _CLEAN_SHUTDOWN_SINCE
            and existing is not None
            and existing.epoch == request.previous_broker_epoch
        )
        records += leader_updates.stopped(state, broker, is_clean=is_clean)
        record.broker_epoch = next_offset
    else:
        record.fenced, record.broker_epoch = existing.fenced, existing.epoch
        record.in_controlled_shutdown = existing.in_controlled_shutdown
    # It is last, so that a broker registers again if the records before it were not all committed.
    records.append(record)
    return Decision(records, BrokerRegistrationResponse(broker_epoch=record.broker_epoch), atomic=False)


def _check_registration(
    state: ControllerState, request: BrokerRegistrationRequest, now_ms: int, *, is_own: bool
) -> None:
    if request.cluster_id != state.cluster_id:
        raise KafkaError(
            Errors.INCONSISTENT_CLUSTER_ID,
            f"Expected cluster ID {state.cluster_id}, but got cluster ID {request.cluster_id}",
        )
    existing = state.image.brokers.get(request.broker_id)
    if (
        not is_own
        and existing is not None
        and existing.incarnation_id != request.incarnation_id
        and state.sessions.is_valid(existing.id, existing.epoch, now_ms)
    ):
        raise KafkaError(
            Errors.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted, its "
            "session ends soon and the registration succeeds.",
        )
    if request.is_migrating_zk_broker:
        raise KafkaError(
            Errors.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers."
        )
    if state.metadata_version >= DIRECTORIES_SINCE:
        _check_directories(state, request)


def _check_directories(state: ControllerState, request: BrokerRegistrationRequest) -> None:
    directories = list(request.log_dirs)
    if not directories:
        raise KafkaError(Errors.INVALID_REGISTRATION, "No directories specified in request")
    if any(is_reserved(each) for each in directories):
        raise KafkaError(Errors.INVALID_REGISTRATION, "Reserved directory ID in request")
    if len(set(directories)) != len(directories):
        raise KafkaError(Errors.INVALID_REGISTRATION, "Duplicate directory ID in request")
    for other in state.image.brokers.values():
        for each in directories:
            if other.id != request.broker_id and each in other.directories:
                raise KafkaError(
                    Errors.INVALID_REGISTRATION,
                    f"Broker {other.id} is already registered with directory {each.hex()}",
                )


def _registration(state: ControllerState, request: BrokerRegistrationRequest) -> RegisterBrokerRecord:
    finalized = {METADATA_VERSION: state.metadata_version, **state.image.features}
    features = {
        each.name: (each.min_supported_version, each.max_supported_version) for each in request.features
    }
    for name, (lowest, highest) in features.items():
        _check_feature(name, finalized.get(name, 0), lowest, highest)
    if METADATA_VERSION not in features:
        raise KafkaError(Errors.INVALID_REGISTRATION, f"Request features do not contain '{METADATA_VERSION}'")
    for name, level in finalized.items():
        if name not in features:
            _check_feature(name, level, 0, 0)
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        rack=request.rack,
        end_points=[
            BrokerEndpoint(
                name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
            )
            for each in request.listeners
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in features.items()
        ],
        log_dirs=list(request.log_dirs) if state.metadata_version >= DIRECTORIES_SINCE else [],
    )


def _check_feature(name: str, finalized: int, lowest: int, highest: int) -> None:
    if not lowest <= finalized <= highest:
        raise KafkaError(
            Errors.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {finalized} of "
            f"{name}. The broker wants a version between {lowest} and {highest}, inclusive.",
        )


# ------------------------------------------------------------ heartbeats


class _Next:
    """The state of a broker after a heartbeat."""

    FENCED: Final = 0
    UNFENCED: Final = 1
    SHUTTING_DOWN: Final = 2
    MAY_STOP: Final = 3


def note_contact(state: ControllerState, request: BrokerHeartbeatRequest, arrived_ms: int) -> None:
    """Notes that a heartbeat has arrived, whenever its turn comes (as Kafka's trackBrokerHeartbeat).

    Args:
        arrived_ms: Steady time.
    """
    broker = state.image.brokers.get(request.broker_id)
    if broker is not None and broker.epoch == request.broker_epoch:
        state.sessions.heard(broker.id, broker.epoch, arrived_ms)


def unchanging_answer(
    state: ControllerState, request: BrokerHeartbeatRequest
) -> BrokerHeartbeatResponse | None:
    """Returns the answer to a heartbeat that changes nothing, as nearly all; None for others. It needs no
    turn among the decisions.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    broker = state.broker(request.broker_id, request.broker_epoch)
    session = state.sessions[broker.id]
    is_caught_up = request.current_metadata_offset >= state.registration_offsets[broker.id]
    after = _next(state, session, request, is_caught_up=is_caught_up)
    if after != _state(session) or after == _Next.MAY_STOP or _directory_changes(state, broker, request):
        return None
    state.sessions.touch(broker.id, after == _Next.FENCED, request.current_metadata_offset)
    return BrokerHeartbeatResponse(is_caught_up=is_caught_up, is_fenced=after == _Next.FENCED)


def heartbeat(
    state: ControllerState, request: BrokerHeartbeatRequest, now_ms: int
) -> Decision[BrokerHeartbeatResponse]:
    """Takes a heartbeat: fences, unfences, or leads the broker through its controlled shutdown.

    Raises:
        KafkaError: STALE_BROKER_EPOCH.
    """
    broker = state.broker(request.broker_id, request.broker_epoch)
    state.sessions.heard(broker.id, broker.epoch, now_ms)
    session = state.sessions[broker.id]
    is_caught_up = request.current_metadata_offset >= state.registration_offsets[broker.id]
    before = _state(session)
    after = _next(state, session, request, is_caught_up=is_caught_up)
    records: list[MetadataRecord] = []
    if after != before:
        if after in (_Next.FENCED, _Next.MAY_STOP):
            records += leader_updates.fence(state, broker)
        elif after == _Next.UNFENCED:
            records += leader_updates.unfence(state, broker)
        else:
            records += leader_updates.begin_shutdown(state, broker)
    state.sessions.touch(broker.id, after in (_Next.FENCED, _Next.MAY_STOP), request.current_metadata_offset)
    if after == _Next.MAY_STOP:
        state.sessions.end(broker.id, broker.epoch)
    records += _directory_changes(state, broker, request)
    answer = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=after in (_Next.FENCED, _Next.MAY_STOP),
        should_shut_down=after == _Next.MAY_STOP,
    )

    def appended(offset: int) -> None:
        state.sessions.begin_shutdown(broker.id, offset)

    return Decision(
        records, answer, atomic=False, appended=appended if after == _Next.SHUTTING_DOWN else None
    )


def _state(session: BrokerSession) -> int:
    if session.is_shutting_down:
        return _Next.SHUTTING_DOWN
    return _Next.FENCED if session.fenced else _Next.UNFENCED


def _next(
    state: ControllerState, session: BrokerSession, request: BrokerHeartbeatRequest, *, is_caught_up: bool
) -> int:
    leads = bool(state.index.led(request.broker_id))
    if session.is_shutting_down:
        # Wait until the others have their new leaders.
        lowest = state.sessions.lowest_active_offset()
        reached = lowest is None or session.shutdown_offset <= lowest
        return _Next.MAY_STOP if reached and not leads else _Next.SHUTTING_DOWN
    if session.fenced:
        if request.want_shut_down:
            return _Next.MAY_STOP
        return _Next.UNFENCED if is_caught_up and not request.want_fence else _Next.FENCED
    if request.want_fence:
        return _Next.MAY_STOP if request.want_shut_down else _Next.FENCED
    if request.want_shut_down:
        return _Next.SHUTTING_DOWN if leads else _Next.MAY_STOP
    return _Next.UNFENCED


def _directory_changes(
    state: ControllerState, broker: BrokerImage, request: BrokerHeartbeatRequest
) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    if state.metadata_version >= DIRECTORIES_SINCE and request.offline_log_dirs:
        records += leader_updates.directories_failed(state, broker, list(request.offline_log_dirs))
    cordoned = request.cordoned_log_dirs
    if (
        state.metadata_version >= CORDONED_DIRECTORIES_SINCE
        and cordoned is not None
        and set(cordoned) != set(broker.cordoned)
    ):
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.id, broker_epoch=broker.epoch, cordoned_log_dirs=list(cordoned)
            )
        )
    return records


# ------------------------------------------------------------ the end of a registration


def fence_stale(state: ControllerState, now_ms: int) -> Decision[int] | None:
    """Fences one broker whose session is over; the answer is its id. None when there is none.

    One at a time, so that each decision sees the one before.
    """
    while (expired := state.sessions.take_expired(now_ms)) is not None:
        broker = state.image.brokers.get(expired[0])
        if broker is not None and broker.epoch == expired[1] and not broker.fenced:
            return Decision(leader_updates.fence(state, broker), broker.id, atomic=False)
    return None


def unregister(
    state: ControllerState, request: "UnregisterBrokerRequest"
) -> "Decision[UnregisterBrokerResponse]":
    """Removes a broker's registration, whether it is alive or not.

    Raises:
        KafkaError: BROKER_ID_NOT_REGISTERED.
    """
    from bowstring.protocol.messages.unregister_broker import UnregisterBrokerResponse

    broker = state.image.brokers.get(request.broker_id)
    if broker is None:
        raise KafkaError(
            Errors.BROKER_ID_NOT_REGISTERED,
            f"Broker ID {request.broker_id} is not currently registered",
        )
    records = leader_updates.unregister(state, broker)
    return Decision(records, UnregisterBrokerResponse(error_message=None), atomic=False)
