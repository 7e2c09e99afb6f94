"""Development certificates: who can read them, whom they are for, and that a handshake takes them."""

import ssl
import stat
from datetime import UTC, datetime

import pytest

from bowstring.clients.errors import ConfigError, MissingPackageError
from bowstring.cluster import certificates
from bowstring.cluster.certificate_snippets import write_snippets
from bowstring.cluster.certificates import Authority, read_certificates
from bowstring.cluster.secret_files import write_secret


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path / "certs")


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def shake(authority, host, own=None, wanted=ssl.CERT_REQUIRED):
    """A handshake in memory; returns the certificate that the server sees."""
    folder = authority.directory
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "broker.pem")
    server.load_verify_locations(folder / "ca.pem")
    server.verify_mode = wanted
    client = ssl.create_default_context(cafile=folder / "ca.pem")
    if own is not None:
        client.load_cert_chain(own)
    ways = [ssl.MemoryBIO() for _ in range(2)]
    ends = [
        client.wrap_bio(ways[0], ways[1], server_hostname=host),
        server.wrap_bio(ways[1], ways[0], server_side=True),
    ]
    for turn in range(8):
        try:
            ends[turn % 2].do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends[1].getpeercert()


def test_a_handshake_with_both_certificates(authority):
    authority.issue_broker(["localhost", "127.0.0.1", "broker.example"])
    alice = authority.issue_client("alice")
    for host in ("localhost", "127.0.0.1", "broker.example"):
        assert shake(authority, host, alice)["subject"] == ((("commonName", "alice"),),)
    with pytest.raises(ssl.SSLCertVerificationError, match=r"not valid for 'elsewhere.example'"):
        shake(authority, "elsewhere.example", alice)


def test_only_the_owner_reads_keys(authority):
    authority.issue_broker()
    authority.issue_client("alice")
    write_snippets(authority.directory, ["alice"])
    assert mode(authority.directory) == 0o700
    modes = {path.name: mode(path) for path in authority.directory.iterdir()}
    assert modes.pop("ca.pem") == 0o644
    assert set(modes) == {
        *("alice.pem", "alice.properties", "broker.pem", "ca.key", "client.properties", "server.properties")
    }
    assert set(modes.values()) == {0o600}


def test_an_authority_is_used_again(authority):
    before = (authority.directory / "ca.pem").read_bytes()
    again = Authority(authority.directory)
    assert authority.is_new and not again.is_new
    again.issue_broker(["new.example"], days=2)
    (facts,) = read_certificates(again.directory / "broker.pem")
    assert facts.hosts == ("new.example",) and facts.days_left(datetime.now(UTC)) in (1, 2)
    assert facts.subject == "CN=broker" and facts.has_private_key and not facts.is_authority
    assert (again.directory / "ca.pem").read_bytes() == before
    (facts,) = read_certificates(again.directory / "ca.pem")
    assert facts.is_authority and not facts.has_private_key


def test_settings_that_someone_edited_stay(authority):
    write_snippets(authority.directory, [])
    edited = authority.directory / "server.properties"
    edited.write_text("mine")
    write_snippets(authority.directory, ["bob"])
    assert edited.read_text() == "mine"
    assert "bob.pem" in (authority.directory / "bob.properties").read_text()


def test_what_cannot_be_made(authority, tmp_path):
    for name in ("", "ca", "server", "../x", ".hidden", "a\nb"):
        with pytest.raises(ConfigError, match="a client cannot be called"):
            authority.issue_client(name)
    with pytest.raises(ConfigError, match="at most 64 bytes"):
        authority.issue_client("ü" * 33)
    with pytest.raises(ConfigError, match=r"the authority in .* ends on .*: give fewer days"):
        authority.issue_client("alice", days=4000)
    with pytest.raises(ConfigError, match="write it in punycode"):
        authority.issue_broker(["bücher.example"])
    (authority.directory / "ca.key").unlink()
    with pytest.raises(ConfigError, match=r"has ca.pem, but not ca.key: put it back"):
        Authority(authority.directory)
    other = Authority(tmp_path / "other")
    (other.directory / "ca.key").rename(authority.directory / "ca.key")
    with pytest.raises(ConfigError, match=r"ca.key is not the key of ca.pem"):
        Authority(authority.directory)
    with pytest.raises(ConfigError, match=r"ca.key has no certificate"):
        read_certificates(authority.directory / "ca.key")


HOSTS = ["a", "a-b.example", "*.example.com", "my_broker", "10.0.0.1", "::1", "fe80::1", "x1", "1.example"]
NO_HOSTS = [
    *("", "exa mple", "host:9092", "[::1]", "fe80::1%eth0", "10.0.0.300", "10.0.1", "-a", "a-", "a..b", "a."),
    *("*", "a.*.b", "https://a", "a/b", "a\n", "a" * 64, "a." * 130 + "b", "a,b", "user@a"),
]


def test_hosts(authority):
    authority.issue_broker(HOSTS)
    (facts,) = read_certificates(authority.directory / "broker.pem")
    assert facts.hosts == tuple(HOSTS)


@pytest.mark.parametrize("host", NO_HOSTS)
def test_what_is_no_host(authority, host):
    with pytest.raises(ConfigError, match="neither the name nor the address of a host: write, for example"):
        authority.issue_broker(["localhost", host])
    assert not (authority.directory / "broker.pem").exists()


@pytest.mark.parametrize("options", [("--host", "exa mple"), ("--client", "a/b"), ("--client", "ü" * 33)])
def test_a_command_that_is_refused_writes_nothing(offline, tmp_path, options):
    assert offline("certs", "create", tmp_path / "c", *options).code == 2
    assert not (tmp_path / "c").exists()


def test_a_run_that_was_killed_is_continued(tmp_path):
    """Between each two files: what is there stays, what lacks is made."""
    first = Authority(tmp_path / "certs")
    alice, key = first.issue_client("alice"), (first.directory / "ca.key").read_bytes()
    (first.directory / "ca.pem").unlink()  # it is written behind the key
    again = Authority(first.directory)
    assert not again.is_new and (again.directory / "ca.key").read_bytes() == key
    again.issue_broker()
    assert shake(again, "localhost", alice)["subject"] == ((("commonName", "alice"),),)
    assert mode(again.directory / "ca.pem") == 0o644


def test_the_key_is_written_before_the_certificate(monkeypatch, tmp_path):
    def killed(path, data):
        raise KeyboardInterrupt

    with monkeypatch.context() as broken:
        broken.setattr(certificates, "write_public", killed)
        with pytest.raises(KeyboardInterrupt):
            Authority(tmp_path / "certs")
    assert [each.name for each in (tmp_path / "certs").iterdir()] == ["ca.key"]
    Authority(tmp_path / "certs").issue_broker()


def test_what_another_authority_has_signed_is_not_overwritten(authority, tmp_path):
    theirs = Authority(tmp_path / "other").issue_broker().read_bytes()
    file = authority.directory / "broker.pem"
    for content in (theirs, b"not a certificate"):
        file.write_bytes(content)
        with pytest.raises(ConfigError, match=r"broker.pem is not of the authority .*: move it away"):
            authority.issue_broker()
        assert file.read_bytes() == content


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("ca.key", b"nonsense", "ca.key is no private key that can be read"),
        ("ca.pem", b"nonsense", "ca.pem is no certificate that can be read"),
    ],
)
def test_files_that_cannot_be_read(authority, file, content, message):
    (authority.directory / file).write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        Authority(authority.directory)


def test_secrets_are_never_there_with_another_mode(tmp_path):
    path = tmp_path / "secret"
    path.write_text("old")
    path.chmod(0o666)
    write_secret(path, b"new")
    assert path.read_bytes() == b"new" and mode(path) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["secret"]


def test_the_extra_is_named(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "cryptography", None)
    with pytest.raises(MissingPackageError, match=r"bowstring\[security\]"):
        Authority(tmp_path / "certs")


def test_commands(offline, tmp_path):
    made = offline("certs", "create", tmp_path / "c", "--client", "alice", "--days", 3, "--json")
    assert [(each["subject"], each["days_left"] <= 3) for each in made.json] == [
        *[("CN=Bowstring development authority", False), ("CN=broker", True), ("CN=alice", True)]
    ]
    shown = offline("certs", "show", tmp_path / "c" / "alice.pem")
    assert shown.code == 0 and "CN=alice" in shown.out and "PRIVATE" not in shown.out
