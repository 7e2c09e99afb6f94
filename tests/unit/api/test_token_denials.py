"""Who may have to do with delegation tokens (KafkaApis.allowTokenRequests, KIP-48, KIP-373)."""

import pytest

from bowstring.engine.api.delegation_tokens import denial, refused
from bowstring.engine.requests.listeners import Listener
from bowstring.engine.requests.request import Request
from bowstring.protocol import decode_response, encode_response
from bowstring.protocol.acls import AclOperation, AclResourceType
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from tests.support.fake_authorizer import FakeAuthorizer

NOT_ALLOWED = Errors.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED


def found(protocol, authorizer=None, *, owner="", principal="User:a", **fields):
    request = Request(
        api_key=ApiKeys.CREATE_DELEGATION_TOKEN,
        version=3,
        body=CreateDelegationTokenRequest(owner_principal_type="User", owner_principal_name=owner),
        listener=Listener("L", "", 0, protocol),
        principal=principal,
        **fields,
    )
    return denial(request, authorizer or FakeAuthorizer())


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_refusal_fits_each_version(version):
    body = CreateDelegationTokenRequest()
    request = Request(api_key=38, version=version, body=body, listener=None, principal="User:a")
    answer = refused(request, NOT_ALLOWED)
    _, decoded = decode_response(38, version, bytes(encode_response(38, version, 1, answer)))
    assert (decoded.error_code, decoded.principal_name) == (NOT_ALLOWED.code, "a")
    assert decoded.token_requester_principal_name == ("a" if version == 3 else "")


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def test_clients_that_have_authenticated_may(protocol):
    assert found(protocol) is None
    assert found(protocol, is_token_authenticated=True) is NOT_ALLOWED


def test_others_may_not_unless_a_broker_sends_it_on():
    assert found("PLAINTEXT") is NOT_ALLOWED
    assert found("SSL", principal="User:ANONYMOUS") is NOT_ALLOWED
    assert found("PLAINTEXT", is_forwarded=True) is None
    assert found("PLAINTEXT", is_forwarded=True, is_token_authenticated=True) is NOT_ALLOWED


def test_a_token_for_someone_else_needs_a_permission():
    authorizer = FakeAuthorizer((AclOperation.CREATE_TOKENS, AclResourceType.USER, "User:b"))
    for fields in ({}, {"is_forwarded": True}):  # on brokers and on controllers
        refused = found("SASL_SSL", authorizer, owner="b", **fields)
        assert refused is Errors.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert found("SASL_SSL", authorizer, owner="a", **fields) is None
        assert found("SASL_SSL", owner="b", **fields) is None
