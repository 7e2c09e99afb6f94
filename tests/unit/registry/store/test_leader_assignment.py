"""Elections in the JSON of Confluent's and Karapace's registries."""

import json

import pytest

from bowstring.registry.store.leader_assignment import DUPLICATE_URLS, LeaderAssignment, elect
from bowstring.registry.store.member_identity import MemberIdentity

# As Confluent's registry 8 and Karapace 5 write them.
CONFLUENT = {
    "version": 1,
    "host": "b",
    "port": 8081,
    "master_eligibility": True,
    "scheme": "http",
    "leader": False,
}
KARAPACE = {
    "version": 2,
    "karapace_version": "5.0.0",
    "host": "c",
    "port": 8081,
    "scheme": "https",
    "master_eligibility": True,
}


def encoded(told: object) -> bytes:
    return json.dumps(told).encode()


def own(host: str, *, eligible: bool = True, leader: bool = False) -> bytes:
    return MemberIdentity("http", host, 8081, eligible, leader).encode()


def outcome(**members: bytes) -> LeaderAssignment:
    """The assignment that all members get."""
    assignments = elect(members)
    assert set(assignments) == set(members)
    (data,) = set(assignments.values())
    return LeaderAssignment.decode(data)


def test_the_smallest_url_leads_among_registries_of_all_makers():
    found = outcome(m1=encoded(KARAPACE), m2=encoded(CONFLUENT), m3=own("d"))
    assert (found.error, found.master) == (0, "m2")
    assert found.identity is not None
    assert found.identity.url == "http://b:8081"


def test_members_get_the_leader_as_it_told_of_itself():
    told = json.loads(elect({"m2": encoded(CONFLUENT), "m3": own("d")})["m3"])
    assert told == {"version": 1, "error": 0, "master": "m2", "master_identity": CONFLUENT}


def test_who_led_before_leads_on():
    assert outcome(m1=own("a"), m2=own("b", leader=True)).master == "m2"


def test_of_two_that_led_the_smallest_url_leads():
    assert outcome(m1=own("c", leader=True), m2=own("b", leader=True), m3=own("a")).master == "m3"


def test_the_ineligible_never_lead():
    assert outcome(m1=own("a", eligible=False, leader=True), m2=own("b")).master == "m2"
    assert outcome(m1=own("a", eligible=False)) == LeaderAssignment()


def test_karapace_gets_an_ineligible_leader_instead_of_none():
    karapace = KARAPACE | {"master_eligibility": False}
    assignments = elect({"m1": own("a", eligible=False), "m2": encoded(karapace)})
    assert "master" not in json.loads(assignments["m1"])
    assert json.loads(assignments["m2"])["master_identity"]["master_eligibility"] is False
    assert LeaderAssignment.decode(assignments["m2"]) == LeaderAssignment()


def test_members_with_one_url_are_an_error():
    assert outcome(m1=own("a"), m2=own("a")).error == DUPLICATE_URLS


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\xff",
        b"[]",
        b"[" * 100_000,
        encoded({}),
        encoded(CONFLUENT | {"port": "8081"}),
        encoded(CONFLUENT | {"port": 0}),
        encoded(CONFLUENT | {"host": 7}),
        encoded(CONFLUENT | {"scheme": "file"}),
        encoded(CONFLUENT | {"host": "b/../c"}),
        encoded(CONFLUENT | {"host": "user@b"}),
    ],
)
def test_who_tells_nonsense_does_not_lead_and_does_no_harm(metadata):
    assert outcome(m1=metadata, m2=own("b")).master == "m2"


@pytest.mark.parametrize(
    "data", [b"", b"7", b'{"error":"no"}', b'{"master":"m","master_identity":7}', b"[" * 100_000]
)
def test_nonsense_is_no_assignment(data):
    with pytest.raises(ValueError, match=r"JSON|Expecting"):
        LeaderAssignment.decode(data)


def test_an_assignment_of_karapace_is_read():
    told = {"master": "m1", "master_identity": KARAPACE, "error": 0}
    found = LeaderAssignment.decode(encoded(told))
    assert (found.master, found.identity and found.identity.url) == ("m1", "https://c:8081")


def test_an_identity_without_a_scheme_is_http():
    told = {name: value for name, value in CONFLUENT.items() if name != "scheme"}
    assert MemberIdentity.decode(encoded(told)).url == "http://b:8081"


def test_an_identity_says_its_maker():
    assert MemberIdentity.decode(own("a")).is_bowstring
    assert not MemberIdentity.decode(encoded(CONFLUENT)).is_bowstring
    assert MemberIdentity.decode(encoded(KARAPACE)).is_karapace


def test_addresses_of_ipv6_are_in_brackets():
    assert MemberIdentity("http", "::1", 8081).url == "http://[::1]:8081"
