"""Users of the first metadata, from the text that Kafka's storage tool takes."""

import hashlib
import hmac
from base64 import b64encode

import pytest

from bowstring.engine.broker.node_format import format_plan
from bowstring.engine.configs import ConfigError
from bowstring.engine.metadata.store.bootstrap import read_bootstrap
from bowstring.engine.quorum.first_users import first_user
from bowstring.engine.quorum.formatting import FormatOptions, carry_out
from bowstring.protocol.ids import format_uuid, random_uuid
from bowstring.protocol.records.cluster_metadata.security import UserScramCredentialRecord


def test_a_password_becomes_keys():
    made = first_user("SCRAM-SHA-256=[name=alice,password=alice-secret,iterations=5000]")
    assert (made.name, made.mechanism, made.iterations, len(made.salt)) == ("alice", 1, 5000, 24)
    salted = hashlib.pbkdf2_hmac("sha256", b"alice-secret", made.salt, 5000)
    assert made.server_key == hmac.digest(salted, b"Server Key", "sha256")
    assert made.stored_key == hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    text = f"salt={b64encode(made.salt).decode()},saltedpassword={b64encode(salted).decode()}"
    assert first_user(f"SCRAM-SHA-256=[iterations=5000,name=alice,{text}]") == made


def test_commas_and_quotes_of_passwords():
    salt = "salt=YWJj"
    plain = first_user(f"SCRAM-SHA-512=[name=a,password=x,y=z,{salt}]")
    assert first_user(f'SCRAM-SHA-512=[name="a",password="x,y=z",{salt}]') == plain


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("alice", "write SCRAM-SHA-512="),
        ("PLAIN=[name=a,password=hunter2]", "SCRAM-SHA-256 or SCRAM-SHA-512"),
        ("SCRAM-SHA-256=[password=hunter2]", "give name"),
        ("SCRAM-SHA-256=[name=a]", "one of password and saltedpassword"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aHVudGVyMg==]", "give salt="),
        ("SCRAM-SHA-256=[name=a,password=hunter2,iterations=1]", "iterations are 4096 to 16384"),
        ("SCRAM-SHA-256=[name=a,password=hunter2,salt=?]", "salt is not base64"),
        ("SCRAM-SHA-256=[name=a,name=b,password=hunter2]", "given twice"),
        ("SCRAM-SHA-256=[user=a,password=hunter2]", "a part is unknown"),
    ],
)
def test_malformed_texts(text, error):
    with pytest.raises(ConfigError, match=error) as raised:
        first_user(text)
    assert "hunter2" not in str(raised.value)


def test_formatting_leaves_them_to_the_first_controller(tmp_path):
    settings = {"node.id": "1", "process.roles": "broker,controller", "log.dirs": str(tmp_path / "data")}
    settings |= {
        "listeners": "PLAINTEXT://127.0.0.1:1,CONTROLLER://127.0.0.1:2",
        "controller.listener.names": "CONTROLLER",
    }
    settings |= {"controller.quorum.voters": "1@127.0.0.1:2"}
    users = [f"SCRAM-SHA-512=[name={name},password=hunter2]" for name in ("a", "b")]
    options = FormatOptions(cluster_id=format_uuid(random_uuid()), add_scram=users)
    plan = format_plan(settings, options)
    assert "hunter2" not in repr(options) + repr(plan)
    carry_out(plan)
    records = [
        each for each in read_bootstrap(tmp_path / "data") if isinstance(each, UserScramCredentialRecord)
    ]
    assert [(each.name, each.mechanism) for each in records] == [("a", 2), ("b", 2)]
