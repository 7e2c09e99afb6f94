"""SASL, message by message: handshakes, tokens with and without headers, and what comes at the wrong time."""

import base64
import hashlib
import hmac
import re
import struct
from collections.abc import Iterator
from typing import Any, Final

from bowstring.engine.api.table import BY_BROKER
from bowstring.protocol import API_VERSIONS, encode_request
from tests.conformance.differential.compare import conversation
from tests.conformance.differential.sasl_client import CHALLENGE, LISTENER, NONCE, Client, plain
from tests.conformance.differential.settings import PASSWORD
from tests.conformance.differential.talk import API_KEYS, CLOSED, Talk, build
from tests.support.wire import Wire, frame

USER: Final = "scram-alice"
HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
OFFERED: Final = ("PLAIN", *HASHES)


def proof(mechanism: str, password: str, messages: str, challenge: re.Match[str]) -> str:
    """Returns the proof of a client (RFC 5802), in base64."""
    name = HASHES[mechanism]
    salt, iterations = base64.b64decode(challenge["salt"]), int(challenge["iterations"])
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, key).digest(), messages.encode(), name)
    return base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()


def final(
    mechanism: str,
    first: str,
    answer: bytes,
    *,
    password: str = PASSWORD,
    header: str = "n,,",
    nonce: str = "",
    ending: str = "",
    signed: str = "",
) -> bytes:
    """Returns a client's last SCRAM message, with faults as named."""
    found = CHALLENGE.fullmatch(answer.decode())
    assert found is not None, answer
    bare = f"c={base64.b64encode(header.encode()).decode()},r={nonce or found['nonce']}{signed}"
    messages = f"{first.removeprefix('n,,')},{answer.decode()},{bare}"
    return f"{bare}{ending},p={proof(mechanism, password, messages, found)}".encode()


def user(talk: Talk) -> None:
    """Makes the user of SCRAM, once for each broker."""
    rows = []
    for number, name in enumerate(HASHES.values(), 1):
        salted = hashlib.pbkdf2_hmac(name, PASSWORD.encode(), b"salty", 4096)
        row = {"name": USER, "mechanism": number, "iterations": 4096, "salt": b"salty"}
        rows.append(row | {"salted_password": salted})
    for row in rows:
        talk.quietly("AlterUserScramCredentials", 0, deletions=[], upsertions=[row])
    talk.until(
        lambda answer: not answer.results[0].error_code and len(answer.results[0].credential_infos) == 2,
        "DescribeUserScramCredentials",
        0,
        users=[{"name": USER}],
    )


# ---------------------------------------------------------------- handshakes


@conversation(range(4))
def test_handshakes(talk: Talk) -> None:
    if talk.version > 1:
        data = struct.pack(">hhih", API_KEYS["SaslHandshake"], talk.version, 1, -1) + b"\0\5PLAIN"
        Client(talk).answer(data, "unknown version")
        return
    for mechanism in (*OFFERED, "plain", "GSSAPI", "OAUTHBEARER", "NONE", "", "x" * 100):
        client = Client(talk)
        client.handshake(mechanism, talk.version)
        if mechanism not in OFFERED:
            client.is_open()


@conversation()
def test_what_comes_first(talk: Talk) -> None:
    Client(talk).token(plain(), "before the handshake")
    Client(talk).works()
    fields: dict[str, Any]
    for version in (0, 3, API_VERSIONS[API_KEYS["ApiVersions"]].highest, 99):
        client = Client(talk)
        fields = {"client_software_name": "a", "client_software_version": "1"} if version >= 3 else {}
        data = encode_request(build(API_VERSIONS[API_KEYS["ApiVersions"]].request, 3, fields), 3, 1, "sasl")  # type: ignore[arg-type]
        if version > API_VERSIONS[API_KEYS["ApiVersions"]].highest:
            data = struct.pack(">hh", API_KEYS["ApiVersions"], version) + data[4:]
            client.answer(data, f"ApiVersions v{version}", API_KEYS["ApiVersions"], version)
        else:
            client.ask("ApiVersions", version, "first", **fields)
        client.handshake("PLAIN")
        client.token(plain())
        client.works()
    client = Client(talk)
    fields = {"client_software_name": "", "client_software_version": "no good\n"}
    client.ask("ApiVersions", 3, "without a name", **fields)
    client.ask("ApiVersions", 3, "with a name", client_software_name="a", client_software_version="1")
    client.handshake("PLAIN")


@conversation()
def test_what_comes_twice_or_late(talk: Talk) -> None:
    client = Client(talk)
    client.handshake("PLAIN")
    client.handshake("PLAIN")
    client.is_open()
    client = Client(talk)
    client.handshake("PLAIN")
    client.token(plain())
    client.token(plain(), "again")
    client.handshake("PLAIN")
    client.works()
    client.token(b"", "again, and empty")
    client.is_open()


@conversation()
def test_versions_at_other_times(talk: Talk) -> None:
    client = Client(talk)
    client.ask("ApiVersions", 0)
    client.ask("ApiVersions", 0, "again")
    client = Client(talk)
    client.handshake("PLAIN")
    client.ask("ApiVersions", 0, "after the handshake")
    client = Client(talk)
    client.handshake("PLAIN", 0)
    client.ask("ApiVersions", 0, "after an old handshake")
    user(talk)
    client = Client(talk)
    client.handshake("SCRAM-SHA-256")
    client.token(f"n,,n={USER},r={NONCE}".encode(), "first")
    client.ask("ApiVersions", 0, "between the tokens")


@conversation()
def test_sizes_and_nonsense(talk: Talk) -> None:
    Client(talk).answer(b"", "nothing")
    Client(talk).answer(b"\x60\x82\x02\x6e", "the beginning of a GSSAPI token")
    Client(talk).answer(b"GET / HTTP/1.1\r\n\r\n", "http")
    Client(talk).answer(bytes(524289), "a byte too long")
    Client(talk).token(b"x" * 1000, "a token first")
    client = Client(talk)
    client.handshake("PLAIN")
    client.answer(b"", "nothing after the handshake")
    client = Client(talk)
    client.handshake("PLAIN")
    client.answer(plain(), "a token without a header")
    client = Client(talk)
    client.handshake("PLAIN")
    data = encode_request(build(API_VERSIONS[API_KEYS["SaslAuthenticate"]].request, 1, {}), 1, 1, "sasl")  # type: ignore[arg-type]
    client.answer(struct.pack(">hh", API_KEYS["SaslAuthenticate"], 3) + data[4:], "unknown version")


@conversation()
def test_all_at_once(talk: Talk) -> None:
    """Requests that are sent without waiting are answered after the log-in, in order."""
    for password in (PASSWORD, "wrong"):
        talk.note(password, [])
        wire = Wire(*talk.address(LISTENER))
        talk.also_close(wire)
        rows: tuple[tuple[str, int, dict[str, Any]], ...] = (
            ("SaslHandshake", 1, {"mechanism": "PLAIN"}),
            ("SaslAuthenticate", 1, {"auth_bytes": plain(password=password)}),
            ("FindCoordinator", 0, {"key": "g"}),
        )
        sent = b""
        for number, (api, version, fields) in enumerate(rows):
            request = build(API_VERSIONS[API_KEYS[api]].request, version, fields)
            sent += frame(encode_request(request, version, number, "sasl"))  # type: ignore[arg-type]
        wire.send(sent)
        for api, _, _ in rows:
            payload = wire.receive()
            talk.note(api, CLOSED if payload is None else payload[:4].hex())
            if payload is None:
                break


def others() -> Iterator[tuple[str, bytes]]:
    """Names and newest requests of the APIs that have nothing to do with authentication."""
    for key in sorted(BY_BROKER.offered):
        api = API_VERSIONS[key]
        if api.name not in ("ApiVersions", "SaslHandshake", "SaslAuthenticate"):
            yield api.name, encode_request(api.request(), api.highest, 1, "sasl")


@conversation()
def test_every_api_before_the_handshake(talk: Talk) -> None:
    for name, data in others():
        Client(talk).answer(data, name)


@conversation()
def test_every_api_after_the_handshake(talk: Talk) -> None:
    for name, data in others():
        client = Client(talk)
        client.handshake("PLAIN")
        answer = client.answer(data, name)
        del talk.transcript[-1]
        talk.note(name, CLOSED if answer is None else "answered")
        client.works()


# ---------------------------------------------------------------- PLAIN


@conversation(range(3))
def test_plain(talk: Talk) -> None:
    for note, token in (
        ("right", plain()),
        ("wrong password", plain(password="wrong")),
        ("unknown user", plain("nobody")),
        ("as itself", plain(authorization="alice")),
        ("as another", plain(authorization="bob")),
        ("as another, wrong password", plain(authorization="bob", password="wrong")),
        ("no password", plain(password="")),
        ("no user", plain("")),
        ("empty", b""),
        ("separators only", b"\0\0"),
        ("two parts", b"alice\0alice-secret"),
        ("one part", b"alice"),
        ("four parts", plain() + b"\0more"),
        ("an end", plain() + b"\0"),
        ("not UTF-8", b"\0alice\0\xff\xfe"),
        ("in other letters", plain("ALICE")),
        ("a message of SCRAM", f"n,,n={USER},r={NONCE}".encode()),
    ):
        client = Client(talk)
        client.handshake("PLAIN")
        client.token(token, note, talk.version)
        client.works()


@conversation()
def test_tokens_without_headers(talk: Talk) -> None:
    for note, token in (
        ("right", plain()),
        ("wrong password", plain(password="wrong")),
        ("empty", b""),
        ("too long", bytes(524289)),
    ):
        client = Client(talk)
        client.handshake("PLAIN", 0)
        client.answer(token, note)
        client.works()
    client = Client(talk)
    client.handshake("PLAIN", 0)
    client.token(plain(), "with a header")
    user(talk)
    for mechanism in HASHES:
        for password in (PASSWORD, "wrong"):
            client = Client(talk)
            client.handshake(mechanism, 0)
            first = f"n,,n={USER},r={NONCE}"
            challenge = client.answer(first.encode(), "first")
            client.answer(final(mechanism, first, challenge, password=password), password)
            client.works()


# ---------------------------------------------------------------- SCRAM


@conversation(range(len(HASHES)))
def test_scram(talk: Talk) -> None:
    mechanism = list(HASHES)[talk.version]
    user(talk)
    right = f"n,,n={USER},r={NONCE}"
    for note, first, faults in (
        ("right", right, {}),
        ("wrong password", right, {"password": "wrong"}),
        ("of another exchange", right, {"nonce": NONCE + "other"}),
        ("the client's own nonce", right, {"nonce": NONCE}),
        ("as itself", f"n,a={USER},n={USER},r={NONCE}", {"header": f"n,a={USER},"}),
        ("tokenauth=false", right + ",tokenauth=false", {}),
    ):
        client = Client(talk)
        client.handshake(mechanism)
        challenge = client.token(first.encode(), f"{note}, first")
        if challenge:
            bare = first[first.index("n=", 2) if "a=" in first else 3 :]
            client.token(final(mechanism, f"n,,{bare}", challenge, **faults), note)
        client.works()


@conversation(range(len(HASHES)))
def test_scram_messages_that_only_one_takes(talk: Talk) -> None:
    mechanism = list(HASHES)[talk.version]
    user(talk)
    right = f"n,,n={USER},r={NONCE}"
    for note, first, faults in (
        ("extensions of the first message", right + ",x=y,z=1", {}),
        ("another header", right, {"header": "y,,"}),
        ("an extension that is not signed", right, {"ending": ",x=y"}),
        ("an extension that is signed", right, {"signed": ",x=y"}),
    ):
        client = Client(talk)
        client.handshake(mechanism)
        challenge = client.token(first.encode(), "first")
        client.token(final(mechanism, first, challenge, **faults), note)


@conversation(range(len(HASHES)))
def test_malformed_scram(talk: Talk) -> None:
    mechanism = list(HASHES)[talk.version]
    user(talk)
    for first in (
        "",
        "n",
        "n,,",
        f"n,,n={USER}",
        f"n,,r={NONCE}",
        f"n,,n=,r={NONCE}",
        f"n,,n={USER},r=",
        f"y,,n={USER},r={NONCE}",
        f"p=tls-unique,,n={USER},r={NONCE}",
        f"n,a=other,n={USER},r={NONCE}",
        f"n,,m=needed,n={USER},r={NONCE}",
        f"n,,n={USER},r={NONCE},tokenauth=maybe",
        f"n,,n={USER},r={NONCE},tokenauth",
        f"n,,n=a=2cb,r={NONCE}",
        f"n,,n=a=b,r={NONCE}",
        f"n,,n={USER},r={NONCE} with a space",
        f"n,,n={USER},r={NONCE}\0",
        f"n,,r={NONCE},n={USER}",
        plain().decode(),
    ):
        client = Client(talk)
        client.handshake(mechanism)
        if not client.token(first.encode(), repr(first)):
            client.works()
    for last in (
        b"",
        b"c=biws",
        f"c=biws,r={NONCE}".encode(),
        f"r={NONCE},c=biws,p=AAAA".encode(),
        f"c=biws,r={NONCE},p=!".encode(),
        f"c=biws,r={NONCE},p=AAAA".encode(),
        f"c=,r={NONCE},p=".encode(),
        b"\xff\xfe",
    ):
        client = Client(talk)
        client.handshake(mechanism)
        client.token(f"n,,n={USER},r={NONCE}".encode(), "first")
        client.token(last, repr(last))
        client.works()


@conversation(range(len(HASHES)))
def test_scram_in_the_wrong_order(talk: Talk) -> None:
    mechanism = list(HASHES)[talk.version]
    user(talk)
    first = f"n,,n={USER},r={NONCE}"
    client = Client(talk)
    client.handshake(mechanism)
    client.token(first.encode(), "first")
    client.token(first.encode(), "first again")
    client.is_open()
    client = Client(talk)
    client.handshake(mechanism)
    client.token(first.encode(), "first")
    client.handshake(mechanism)
    client = Client(talk)
    client.handshake(mechanism)
    challenge = client.token(first.encode(), "first")
    client.token(final(mechanism, first, challenge), "last")
    client.token(final(mechanism, first, challenge), "last again")
    client.works()


@conversation(range(len(HASHES)))
def test_unknown_scram_users(talk: Talk) -> None:
    mechanism = list(HASHES)[talk.version]
    for name, more in (
        ("nobody", ""),
        ("a=2Cb=3Dc", ""),
        ("\u00e9t\u00e9", ""),
        ("no-id", ",tokenauth=true"),
    ):
        client = Client(talk)
        client.handshake(mechanism)
        client.token(f"n,,n={name},r={NONCE}{more}".encode(), name)


@conversation(range(len(HASHES)))
def test_a_proof_of_the_other_mechanism(talk: Talk) -> None:
    mechanism, other = (list(HASHES)[number] for number in (talk.version, 1 - talk.version))
    user(talk)
    first = f"n,,n={USER},r={NONCE}"
    client = Client(talk)
    client.handshake(mechanism)
    challenge = client.token(first.encode(), "first")
    client.token(final(other, first, challenge), "last")
    client.works()


# ---------------------------------------------------------------- delegation tokens


def by_token(talk: Talk, mechanism: str, id: str, key: bytes, extension: str = ",tokenauth=true") -> Client:
    """Returns a client that has tried to log in with a delegation token; compares whether it could."""
    before = len(talk.transcript)
    client = Client(talk)
    client.handshake(mechanism)
    first = f"n,,n={id},r={NONCE}{extension}"
    challenge = client.token(first.encode())
    answer = None
    if challenge:
        password = base64.b64encode(key).decode()
        answer = client.ask(
            "SaslAuthenticate", 2, auth_bytes=final(mechanism, first, challenge, password=password)
        )
    del talk.transcript[before:]
    talk.note(f"{extension} {len(key)}", answer is not None and answer.session_lifetime_ms > 0)
    return client


@conversation(range(len(HASHES)))
def test_delegation_tokens(talk: Talk) -> None:
    mechanism = list(HASHES)[talk.version]
    owner = Client(talk)
    owner.handshake("PLAIN")
    owner.token(plain())
    talk.adopt("owner", owner.wire)
    made = talk.ask("CreateDelegationToken", 3, on="owner", renewers=[], max_lifetime_ms=-1)
    id, key = made.token_id, bytes(made.hmac)
    owners = [{"principal_type": "User", "principal_name": "alice"}]

    def is_known(wanted: bool) -> None:
        talk.until(
            lambda answer: any(each.token_id == id for each in answer.tokens) is wanted,
            "DescribeDelegationToken",
            3,
            on="owner",
            owners=owners,
        )

    is_known(True)
    client = by_token(talk, mechanism, id, key)
    talk.adopt("bearer", client.wire)
    fields: dict[str, Any] = {"renewers": [], "max_lifetime_ms": -1}
    talk.ask("CreateDelegationToken", 3, on="bearer", **fields)
    talk.ask("RenewDelegationToken", 2, on="bearer", hmac=key, renew_period_ms=-1)
    talk.ask("DescribeDelegationToken", 3, on="bearer", owners=owners)
    talk.ask("ExpireDelegationToken", 2, on="bearer", hmac=key, expiry_time_period_ms=-1)
    by_token(talk, mechanism, id, key, "")
    by_token(talk, mechanism, id, key, ",tokenauth=false")
    by_token(talk, mechanism, id, b"another key")
    talk.ask("ExpireDelegationToken", 2, on="owner", hmac=key, expiry_time_period_ms=-1)
    is_known(False)
    by_token(talk, mechanism, id, key)
    talk.ask("FindCoordinator", 0, on="bearer", note="after the end of its token", key="g")
    talk.ask("RenewDelegationToken", 2, on="owner", hmac=key, renew_period_ms=-1)
    talk.ask("ExpireDelegationToken", 2, on="owner", hmac=key, expiry_time_period_ms=-1)
