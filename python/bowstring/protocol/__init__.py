"""Declares each API, record and error of Kafka's protocol once. schema.py has the language, messages/ and
records/ the declarations.

Imported by: cli, clients, clients.*, cluster, console, engine, engine.*, operations, registry, registry.api,
registry.operations, registry.store, rest, rest.records, rest.v2, rest.v3, schemas, security, serve_options,
spark, web.
May import: _native.protocol.
"""

from bowstring._native.protocol.message_codec import ProtocolError, decode, decode_prefix, encode
from bowstring.protocol.frames import (
    DecodedHeader,
    begin_response,
    decode_large_request,
    decode_large_response,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
)
from bowstring.protocol.ids import ZERO_UUID, format_uuid, parse_uuid, random_uuid
from bowstring.protocol.schema import Message, Request, Response, Struct
from bowstring.protocol.versions import API_VERSIONS, Api

__all__ = [
    "API_VERSIONS",
    "ZERO_UUID",
    "Api",
    "DecodedHeader",
    "Message",
    "ProtocolError",
    "Request",
    "Response",
    "Struct",
    "begin_response",
    "decode",
    "decode_large_request",
    "decode_large_response",
    "decode_prefix",
    "decode_request",
    "decode_request_header",
    "decode_response",
    "encode",
    "encode_request",
    "encode_response",
    "format_uuid",
    "parse_uuid",
    "random_uuid",
]
