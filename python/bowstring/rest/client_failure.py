"""Says what a request fails with: the HTTP error of each error of a client."""

from __future__ import annotations

from bowstring.clients.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    BrokerUnreachableError,
    BufferFullError,
    ClientError,
    ClientTimeoutError,
    ConfigError,
    MissingPackageError,
    NoBrokerError,
    RecordTooLargeError,
    UnknownTopicError,
)
from bowstring.web.http_error import HttpError

# Kafka's errors that say that the request is wrong.
_BAD_REQUEST = {
    "INVALID_CONFIG",
    "INVALID_PARTITIONS",
    "INVALID_REPLICATION_FACTOR",
    "INVALID_REPLICA_ASSIGNMENT",
    "INVALID_REQUEST",
    "NON_EMPTY_GROUP",
    "POLICY_VIOLATION",
    "SECURITY_DISABLED",
    "TOPIC_ALREADY_EXISTS",
    "TOPIC_DELETION_DISABLED",
    "UNSUPPORTED_VERSION",
    "OFFSET_OUT_OF_RANGE",
}
_BY_CLASS_OF_BROKER: tuple[tuple[type[BrokerError], int, int], ...] = (
    (AuthorizationError, 403, 40301),
    (RecordTooLargeError, 413, 413),
    (UnknownTopicError, 404, 40403),
)
_BY_CLASS: tuple[tuple[type[ClientError], int, int], ...] = (
    (AuthenticationError, 401, 40101),
    (ConfigError, 400, 40002),
    (NoBrokerError, 503, 50302),
    (BrokerUnreachableError, 503, 50302),
    (BufferFullError, 429, 42901),
    (MissingPackageError, 501, 50101),
)


def not_found(message: str) -> HttpError:
    """Returns the error of something that does not exist."""
    return HttpError(404, 404, message)


def bad_request(message: str) -> HttpError:
    """Returns the error of a request that is wrong."""
    return HttpError(400, 400, message)


def http_error(error: BaseException) -> HttpError:
    """Returns what a request fails with when a client raised this.

    The codes are those of Confluent's REST utilities: 40101, 40301, 40403, 40002, 50003 (retriable), 50002.
    """
    if isinstance(error, HttpError):
        return error
    text = str(error)
    if isinstance(error, BrokerError):
        return _of_broker(error, text)
    if isinstance(error, ConfigError) and " has partitions 0 to " in text:  # of the producer
        return HttpError(404, 40402, text)
    for kind, status, code in _BY_CLASS:
        if isinstance(error, kind):
            return HttpError(status, code, text)
    if isinstance(error, ClientError):
        is_retriable = error.retriable or isinstance(error, ClientTimeoutError)
        return HttpError(500, 50003 if is_retriable else 50002, text)
    return HttpError(500, 500, "The proxy failed; its log says why. Send the request again to retry.")


def _of_broker(error: BrokerError, text: str) -> HttpError:
    for kind, status, code in _BY_CLASS_OF_BROKER:
        if isinstance(error, kind):
            return HttpError(status, code, text)
    if error.name in _BAD_REQUEST:
        return HttpError(400, 40002, text)
    if error.name in ("GROUP_ID_NOT_FOUND", "RESOURCE_NOT_FOUND"):
        return HttpError(404, 404, text)
    if error.name == "THROTTLING_QUOTA_EXCEEDED":
        return HttpError(429, 42901, text)
    return HttpError(500, 50003 if error.retriable else 50002, text)
