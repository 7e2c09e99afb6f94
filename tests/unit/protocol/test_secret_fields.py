"""Neither repr nor errors of messages show what is secret, and no field of bytes is forgotten."""

import pytest

from bowstring.clients.admin.scram_users import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from bowstring.engine.configs import ConfigSource, Origin
from bowstring.engine.configs.files import UnknownConfig
from bowstring.engine.metadata.config_changes import Change
from bowstring.protocol import ProtocolError, encode
from bowstring.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from bowstring.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from bowstring.protocol.records.cluster_metadata.settings import ConfigRecord
from bowstring.protocol.schema import BYTES, STRING, fields_of
from bowstring.security.jaas import parse_login
from bowstring.security.oauth_tokens import Token
from bowstring.security.scram import ScramCredential
from tests.support.declared_messages import all_messages

SECRET = {
    "auth_bytes",
    "hmac",
    "request_data",
    "response_data",
    "salt",
    "salted_password",
    "server_key",
    "stored_key",
}
HARMLESS = {
    "assignment",
    "client_host_address",
    "member_assignment",
    "member_metadata",
    "metadata",
    "metrics",
    "request_principal",
    "subscription",
    "user_data",
}


def declared():
    """Every declared class, those inside of others too."""
    found, left = [], list(all_messages())
    while left:
        kind = left.pop()
        if kind not in found:
            found.append(kind)
            left += [field.struct for field in fields_of(kind) if field.struct is not None]
    return found


def with_text(kind):
    """An instance that has the word "secret" in each field of text or bytes."""
    return kind(
        **{
            field.name: "a secret" if field.kind == STRING else b"a secret"
            for field in fields_of(kind)
            if field.kind in (STRING, BYTES)
        }
    )


def test_every_field_of_bytes_is_secret_or_harmless():
    fields = {
        (field.name, field.secret) for kind in declared() for field in fields_of(kind) if field.kind == BYTES
    }
    assert fields == {(name, True) for name in SECRET} | {(name, False) for name in HARMLESS}


def test_values_of_configs_that_change_are_secret():
    hidden = {
        kind.__name__
        for kind in declared()
        for field in fields_of(kind)
        if field.secret and field.kind == STRING
    }
    assert hidden == {"AlterableConfig", "ConfigRecord"}


def test_no_repr_shows_a_secret():
    count = 0
    for kind in declared():
        fields = fields_of(kind)
        if any(field.secret for field in fields):
            shown = repr(with_text(kind))
            open_fields = sum(field.kind in (STRING, BYTES) and not field.secret for field in fields)
            assert shown.count("a secret") == open_fields, shown
            assert shown.count("[hidden]") == sum(field.secret for field in fields), shown
            count += 1
    assert count == 13


def test_inside_of_other_messages():
    config = AlterableConfig(name="ssl.key.password", value="a secret")
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=4, resource_name="1", configs=[config])]
    )
    assert "a secret" not in repr(request) and "value=[hidden]" in repr(request)
    assert repr(ConfigRecord(name="n", value=None)) == "ConfigRecord(name='n', value=None)"


@pytest.mark.parametrize(
    ("kind", "values", "version"),
    [
        (SaslAuthenticateRequest, {"auth_bytes": "a secret"}, 2),
        (ConfigRecord, {"value": b"a secret"}, 0),
    ],
)
def test_errors(kind, values, version):
    message = kind(**values)
    with pytest.raises(ProtocolError, match=r"is (str|bytes) \[hidden\]$"):
        encode(message, version)


@pytest.mark.parametrize(
    "kept",
    [
        Change("ssl.key.password", 0, "a secret"),
        Origin("ssl.key.password", "a secret", ConfigSource.STATIC_BROKER_CONFIG),
        UnknownConfig("acme.password", "a secret", "server.properties:1", None),
        Token("a secret", 1.0),
        ScramCredential(b"a secret", b"a secret", b"a secret", 4096),
        parse_login('a.PlainLoginModule required password="a secret";'),
        UserScramCredentialUpsertion(
            "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256), "a secret", b"a secret"
        ),
    ],
    ids=lambda kept: type(kept).__name__,
)
def test_what_keeps_a_secret_does_not_show_it(kept):
    assert "a secret" not in repr(kept) and "a secret" not in str(kept)
