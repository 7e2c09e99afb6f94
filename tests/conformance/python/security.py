"""How the Python clients of the next operations connect, in each one's names."""

import os
import ssl
import sys
import time
from typing import Any

from tests.conformance.python.loop import Json

_SECURITY: Json = {}


def secure(args: Json) -> Json:
    """Sets it: `ca`, `certificate`, `key` (files), `mechanism`, `username`, `password`, `token`; empty for plain text.

    Of Kerberos: `krb5`, `cache` (files), `site` (folder with the package gssapi), `service`.
    """
    _SECURITY.clear()
    _SECURITY.update(args["security"])
    if "krb5" in _SECURITY:
        os.environ["KRB5_CONFIG"], os.environ["KRB5CCNAME"] = _SECURITY["krb5"], _SECURITY["cache"]
        if _SECURITY["site"] not in sys.path:
            sys.path.append(_SECURITY["site"])
    return {}


def _protocol() -> str:
    encrypted = "SSL" if "ca" in _SECURITY else "PLAINTEXT"
    return f"SASL_{encrypted}" if "mechanism" in _SECURITY else encrypted


def _token_of(_config: str) -> tuple[str, float]:
    return _SECURITY["token"], time.time() + 3600


def librdkafka() -> dict[str, Any]:
    """Returns settings of confluent-kafka."""
    names = {
        "ca": "ssl.ca.location",
        "certificate": "ssl.certificate.location",
        "key": "ssl.key.location",
        "mechanism": "sasl.mechanisms",
        "username": "sasl.username",
        "password": "sasl.password",
    }
    found: dict[str, Any] = {names[name]: value for name, value in _SECURITY.items() if name in names}
    if "token" in _SECURITY:
        found["oauth_cb"] = _token_of
    return {"security.protocol": _protocol(), **found}


class _Token:
    """The token in the form that kafka-python takes."""

    def token(self) -> str:
        return str(_SECURITY["token"])

    def extensions(self) -> dict[str, str]:
        return {}


def _sasl() -> dict[str, Any]:
    names = {
        "mechanism": "sasl_mechanism",
        "username": "sasl_plain_username",
        "password": "sasl_plain_password",
        "service": "sasl_kerberos_service_name",
    }
    return {names[name]: value for name, value in _SECURITY.items() if name in names}


def kafka_python() -> dict[str, Any]:
    """Returns arguments of kafka-python's clients."""
    names = {"ca": "ssl_cafile", "certificate": "ssl_certfile", "key": "ssl_keyfile"}
    found = {names[name]: value for name, value in _SECURITY.items() if name in names}
    if "token" in _SECURITY:
        from kafka.net.sasl.oauth import AbstractTokenProvider

        provider = type("Provider", (_Token, AbstractTokenProvider), {})
        found["sasl_oauth_token_provider"] = provider()
    return {"security_protocol": _protocol(), **_sasl(), **found}


def aiokafka() -> dict[str, Any]:
    """Returns arguments of aiokafka's clients."""
    found: dict[str, Any] = {"security_protocol": _protocol(), **_sasl()}
    if "ca" in _SECURITY:
        context = ssl.create_default_context(cafile=_SECURITY["ca"])
        if "certificate" in _SECURITY:
            context.load_cert_chain(_SECURITY["certificate"], _SECURITY["key"])
        found["ssl_context"] = context
    if "token" in _SECURITY:
        from aiokafka.abc import AbstractTokenProvider

        class Provider(AbstractTokenProvider):  # type: ignore[misc, unused-ignore]
            async def token(self) -> str:
                return str(_SECURITY["token"])

        found["sasl_oauth_token_provider"] = Provider()
    return found
