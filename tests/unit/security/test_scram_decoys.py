"""A log-in does not show which names and tokens exist: unknown ones get salts like known ones, on every node."""

import random
import re
import string
from collections import Counter

import pytest

from bowstring.engine.configs import BrokerConfigs
from bowstring.engine.metadata.image import ClusterImage
from bowstring.engine.security.credentials import credentials_of
from bowstring.engine.security.scram_decoys import ScramDecoys
from bowstring.protocol.records.cluster_metadata.security import (
    DelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from bowstring.security.scram import SCRAM_SHA_256, SCRAM_SHA_512

NAMES = [f"name{number}" for number in range(200)]


class Node:
    """A node that has the image of the cluster."""

    def __init__(self, *records):
        self.image = ClusterImage()
        for record in records:
            self.image.scram.add(record)

    def decoys(self, mechanism=SCRAM_SHA_256):
        decoys = ScramDecoys(self, mechanism)
        return {name: (each.salt, each.iterations) for name in NAMES for each in [decoys.of(name)]}


def user(name, *, iterations=4096, salt=b"0123456789abcdef0123456789abcdef", mechanism=SCRAM_SHA_256):
    key = random.Random(name).randbytes(mechanism.key_bytes)
    return UserScramCredentialRecord(
        name=name,
        mechanism=mechanism.number,
        salt=salt,
        stored_key=key,
        server_key=key[::-1],
        iterations=iterations,
    )


USERS = [user(f"user{number}", iterations=4096 if number % 2 else 8192) for number in range(20)]


def test_nodes_agree_also_after_a_restart():
    assert Node(*USERS).decoys() == Node(*reversed(USERS)).decoys()
    assert Node(*USERS).decoys() != Node(*USERS, user("u", mechanism=SCRAM_SHA_512)).decoys(SCRAM_SHA_512)


def test_decoys_look_like_the_users():
    decoys = Node(*USERS).decoys()
    assert len({salt for salt, _ in decoys.values()}) == len(NAMES)
    assert all(re.fullmatch(b"[0-9a-f]{32}", salt) for salt, _ in decoys.values())
    counts = Counter(iterations for _, iterations in decoys.values())
    assert set(counts) == {4096, 8192} and min(counts.values()) > 20


def base36(number):
    digits = string.digits + string.ascii_lowercase
    return (base36(number // 36) if number >= 36 else "") + digits[number % 36]


@pytest.mark.parametrize(
    ("salt", "form"),
    [
        (base36(random.Random(1).getrandbits(130)).encode(), b"1?[0-9a-z]{22,25}"),  # as Kafka's clients
        (random.Random(2).randbytes(64), b"[\\x00-\\xff]{64}"),
        (b"salt", b"[\\x00-\\xff]{4}"),
    ],
)
def test_salts_have_the_form_of_the_users(salt, form):
    salts = [each for each, _ in Node(user("alice", salt=salt)).decoys().values()]
    assert all(re.fullmatch(form, each, re.DOTALL) for each in salts) and len(set(salts)) == len(NAMES)
    assert {len(each) for each in salts} <= {24, 25, 26, len(salt)}


def test_a_change_of_a_user_changes_few_decoys():
    before = Node(*USERS).decoys()
    node = Node(*USERS)
    decoys = ScramDecoys(node, SCRAM_SHA_256)
    assert decoys.of("name1").salt == before["name1"][0]
    node.image = node.image.copy()
    node.image.scram.remove(RemoveUserScramCredentialRecord(name="user7", mechanism=1))
    after = {name: (each.salt, each.iterations) for name in NAMES for each in [decoys.of(name)]}
    assert after == Node(*(each for each in USERS if each.name != "user7")).decoys()
    assert 0 < sum(before[name] != after[name] for name in NAMES) < len(NAMES) / 2


def test_other_changes_of_the_image_keep_what_was_calculated():
    image = Node(*USERS).image
    assert image.copy().scram.generation is image.scram.generation


def test_tokens_do_not_show_which_exist():
    token = DelegationTokenRecord(
        token_id="known", owner="User:a", expiration_timestamp=1 << 60, max_timestamp=1 << 60
    )

    def salts():
        node = Node(*USERS)
        node.image.delegation_tokens.add(token)
        made = credentials_of(node, BrokerConfigs({"delegation.token.secret.key": "s"}))
        decoy = made.of_nobody(SCRAM_SHA_256)
        login = made.of_token(SCRAM_SHA_256)("known")
        assert (login.credential.salt, login.credential.iterations) == (decoy("known", True).salt, 4096)
        assert made.of_token(SCRAM_SHA_256)("unknown") is None
        return login.credential.salt, decoy("unknown", True).salt

    assert salts() == salts()
    assert all(re.fullmatch(b"[0-9a-f]{32}", each) for each in salts())


def test_without_users_there_is_a_challenge_too():
    assert len(Node().decoys()["name1"][0]) == 32
