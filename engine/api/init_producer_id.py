"""Handles InitProducerId: gives a producer its id and epoch (KIP-98)."""

from typing import TYPE_CHECKING, Final

from bowstring.engine.transactions.init import InitRequest, init_error
from bowstring.protocol.errors import Error, Errors, KafkaError
from bowstring.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from bowstring.engine.requests.broker_services import BrokerServices
    from bowstring.engine.requests.request import Request

_FENCED_VERSION: Final = 4


async def handle(broker: "BrokerServices", request: "Request") -> InitProducerIdResponse:
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
            producer_id = await broker.producer_ids.allocate()
        except KafkaError as error:
            return init_error(error.error)
        return InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)
    refusal = _refusal(broker, body)
    if refusal:
        return init_error(refusal)
    expected = None if body.producer_id == -1 else (body.producer_id, body.producer_epoch)
    wanted = InitRequest(
        body.transactional_id, body.transaction_timeout_ms, expected, is_two_phase=body.enable2_pc
    )
    try:
        answer = await broker.transactions.init_producer_id(wanted)
    except KafkaError as error:
        return init_error(error.error)
    if answer.error_code == Errors.PRODUCER_FENCED.code and request.version < _FENCED_VERSION:
        answer.error_code = Errors.INVALID_PRODUCER_EPOCH.code
    return answer


def _refusal(broker: "BrokerServices", body: InitProducerIdRequest) -> Error:
    if not body.transactional_id:
        return Errors.INVALID_REQUEST
    if body.enable2_pc and not broker.configs.value("transaction.two.phase.commit.enable"):
        return Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Errors.UNSUPPORTED_VERSION if body.keep_prepared_txn else Errors.NONE
