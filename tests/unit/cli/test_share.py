"""`bowstring share consume`: what it prints, and what it does to the records."""

import json


def test_share_consume(cli, topic):
    group = f"s-{topic}"
    missing = cli("share", "consume", topic, "--group", group)
    assert missing.code == 1 and "UNKNOWN_TOPIC_OR_PARTITION" in missing.err
    cli("topics", "create", topic, "-p", 1)
    cli("configs", "alter", "--group", group, "--set", "share.auto.offset.reset=earliest")
    cli("produce", topic, stdin=b"1\n2\n3\n")
    read = ("share", "consume", topic, "--group", group)
    assert cli(*read, "--release", "-n", 2).lines == ["1", "2"]
    assert cli(*read, "--verbose", "-n", 1).lines == ["0:0\t2\t1"]
    assert cli(*read, "--reject", "-n", 1).lines == ["2"]
    assert json.loads(cli(*read, "--json").out)["delivery_count"] == 1
    done = cli(*read)
    assert (done.code, done.out) == (0, "") and f"no records for group {group}" in done.err
    assert group in cli("groups", "list", "--type", "share", "--state", "Empty").out
    assert cli(*read, "--release", "--reject").code == 2
    wrong = cli("consume", topic, "--group", group)
    assert wrong.code == 1 and "see `bowstring groups describe`" in wrong.err
