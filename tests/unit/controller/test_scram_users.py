import pytest

from bowstring.engine.controller.scram_users import alter_scram_credentials
from bowstring.engine.metadata.features import SCRAM_SINCE
from bowstring.engine.metadata.scram_image import ScramImage
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from bowstring.security.scram import SCRAM_SHA_256, new_credential

SALTED = SCRAM_SHA_256.salted_password("secret", b"salt", 4096)


def upsertion(name="alice", mechanism=1, iterations=4096):
    return ScramCredentialUpsertion(
        name=name, mechanism=mechanism, iterations=iterations, salt=b"salt", salted_password=SALTED
    )


def deletion(name="alice", mechanism=1):
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def alter(*changes, image=None, level=SCRAM_SINCE):
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )
    decision = alter_scram_credentials(image or ScramImage(), request, metadata_version=level)
    return decision.records, {each.user: each.error_code for each in decision.answer.results}


def test_a_credential_is_kept_and_removed():
    image = ScramImage()
    records, results = alter(upsertion(), image=image)
    assert results == {"alice": 0}
    image.add(records[0])
    found, expected = image.get("alice", 1), new_credential(SCRAM_SHA_256, "secret", salt=b"salt")
    assert (found.stored_key, found.server_key) == (expected.stored_key, expected.server_key)
    assert SALTED not in (found.stored_key, found.server_key)
    records, results = alter(deletion(), image=image)
    assert results == {"alice": 0}
    before = image.copy()
    image.remove(records[0])
    assert (len(image), len(before), list(before.records())) == (0, 1, [found])


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ([deletion()], Errors.RESOURCE_NOT_FOUND),
        ([upsertion(), upsertion(mechanism=2)], Errors.DUPLICATE_RESOURCE),
        ([upsertion(iterations=4095)], Errors.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(iterations=16385)], Errors.UNACCEPTABLE_CREDENTIAL),
        ([upsertion(mechanism=3)], Errors.UNSUPPORTED_SASL_MECHANISM),
        ([deletion(mechanism=0)], Errors.UNSUPPORTED_SASL_MECHANISM),
    ],
)
def test_what_is_refused(changes, error):
    records, results = alter(*changes)
    assert (records, results) == ([], {"alice": error.code})


def test_others_in_the_request_are_changed():
    records, results = alter(upsertion(""), upsertion("bob"))
    assert results == {"bob": 0, "": Errors.UNACCEPTABLE_CREDENTIAL.code} and len(records) == 1


def test_an_older_cluster():
    assert alter(upsertion(), level=SCRAM_SINCE - 1) == ([], {"alice": Errors.UNSUPPORTED_VERSION.code})
