"""Handles InitProducerId: gives a producer its id and epoch (KIP-98)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.metadata.names import TRANSACTIONS_TOPIC
from bowstring.engine.transactions.init import InitRequest, init_error
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from bowstring.engine.configs import BrokerConfigs
    from bowstring.engine.coordinators.coordinators import Coordinators
    from bowstring.engine.coordinators.effects import Token
    from bowstring.engine.coordinators.producer_ids import ProducerIds
    from bowstring.engine.requests.request import Received, Request
    from bowstring.engine.transactions.service import TransactionCoordinatorService

_FENCED_VERSION: Final = 4


def begin(
    body: InitProducerIdRequest, message: "Received", token: "Token", *, coordinators: "Coordinators"
) -> bool:
    """Raises the epoch of a transactional id without a task; False: call `handle`."""
    transactional_id, expected = body.transactional_id, _expected(body)
    if (
        not transactional_id
        or message.api_version < _FENCED_VERSION
        or (expected is not None and -1 in expected)
        or body.enable2_pc
        or body.keep_prepared_txn
    ):
        return False
    transactions: TransactionCoordinatorService = coordinators.of(TRANSACTIONS_TOPIC)
    wanted = InitRequest(transactional_id, body.transaction_timeout_ms, expected)
    return transactions.begin_producer(wanted, token)


async def handle(
    request: "Request", *, configs: "BrokerConfigs", producer_ids: "ProducerIds", coordinators: "Coordinators"
) -> InitProducerIdResponse:
    """Gives an idempotent producer an id that was never used; a transactional one the id of its transactional
    id, with an epoch that fences earlier producers.

    Behaviour: without a transactional id, the producer's previous id and epoch are ignored (KIP-360); only
    one without the other is refused. An ongoing transaction is aborted, and the producer retries after
    CONCURRENT_TRANSACTIONS.

    Versions: 3 adds the producer's previous id and epoch (KIP-360); 4 and 5 new transaction errors. Kafka
    holds 6, with two-phase commit (KIP-939), back: it needs transaction.two.phase.commit.enable, and does not
    keep prepared transactions yet.
    """
    body: InitProducerIdRequest = request.body
    if (body.producer_id == -1) != (body.producer_epoch == -1):
        return init_error(Errors.INVALID_REQUEST)
    if body.transactional_id is None:
        try:
            producer_id = await producer_ids.allocate()
        except KafkaError as error:
            return init_error(error.error)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    refusal = _refusal(configs, body)
    if refusal:
        return init_error(refusal)
    wanted = InitRequest(
        body.transactional_id, body.transaction_timeout_ms, _expected(body), is_two_phase=body.enable2_pc
    )
    # Begins only here: most producers are idempotent without transactions.
    transactions: TransactionCoordinatorService = coordinators.of(TRANSACTIONS_TOPIC)
    try:
        answer = await transactions.init_producer_id(wanted)
    except KafkaError as error:
        return init_error(error.error)
    if answer.error_code == Errors.PRODUCER_FENCED.code and request.version < _FENCED_VERSION:
        answer.error_code = Errors.INVALID_PRODUCER_EPOCH.code
    return answer


def _expected(body: InitProducerIdRequest) -> tuple[int, int] | None:
    none = body.producer_id == -1 and body.producer_epoch == -1
    return None if none else (body.producer_id, body.producer_epoch)


def _refusal(configs: "BrokerConfigs", body: InitProducerIdRequest) -> Error:
    if not body.transactional_id:
        return Errors.INVALID_REQUEST
    if body.enable2_pc and not configs.value("transaction.two.phase.commit.enable"):
        return Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Errors.UNSUPPORTED_VERSION if body.keep_prepared_txn else Errors.NONE
