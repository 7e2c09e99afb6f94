"""Controllers log in to one another with credentials that no leader has committed yet."""

from types import SimpleNamespace

from bowstring.engine.broker.early_credentials import EarlyCredentials
from bowstring.engine.metadata.image import ClusterImage
from bowstring.protocol.records.cluster_metadata.security import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

SHA_512 = 2


def credential(name, salt=b"salt"):
    return UserScramCredentialRecord(
        name=name, mechanism=SHA_512, salt=salt, stored_key=b"k", server_key=b"s", iterations=4096
    )


def quorum(*, applied=(), ahead=(), formatted=(), end_offset=0, high_watermark=0):
    image = ClusterImage()
    for each in applied:
        image.apply(each)
    return SimpleNamespace(
        image=image,
        end_offset=end_offset,
        log_end_offset=end_offset + len(ahead),
        high_watermark=high_watermark,
        bootstrap_records=lambda: list(formatted),
        records_ahead=lambda *kinds: list(ahead),
    )


def users(early):
    return {name: each[SHA_512].salt for name, each in early.image.scram.by_user.items()}


def test_a_new_quorum_takes_what_formatting_has_left():
    assert users(EarlyCredentials(quorum(formatted=[credential("node")]))) == {"node": b"salt"}


def test_the_log_counts_more_than_the_snapshot_and_what_formatting_has_left():
    made = quorum(
        applied=[credential("node", b"old"), credential("gone")],
        ahead=[
            credential("node", b"new"),
            RemoveUserScramCredentialRecord(name="gone", mechanism=SHA_512),
            credential("later"),
        ],
        formatted=[credential("first")],
        end_offset=7,
        high_watermark=7,
    )
    assert users(EarlyCredentials(made)) == {"node": b"new", "later": b"salt"}
    assert set(made.image.scram.by_user) == {"node", "gone"}


def test_the_image_alone_counts_once_something_is_committed():
    made = quorum(ahead=[credential("never committed")], formatted=[credential("node")])
    early = EarlyCredentials(made)
    assert set(users(early)) == {"node", "never committed"}
    made.image.apply(credential("node", b"committed"))
    made.high_watermark = 1
    assert users(early) == {"node": b"committed"}


def test_records_that_arrive_are_seen():
    made = quorum(formatted=[credential("node")])
    early = EarlyCredentials(made)
    assert set(users(early)) == {"node"}
    made.records_ahead = lambda *kinds: [credential("node"), credential("arrived")]
    made.log_end_offset = 2
    assert set(users(early)) == {"node", "arrived"}
