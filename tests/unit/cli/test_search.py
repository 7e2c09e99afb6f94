"""`bowstring search` prints the records that match."""

from bowstring.clients.producer.producer import Producer


def test_search(bootstrap, cli, new_topic):
    topic = new_topic(partitions=2)
    with Producer(bootstrap, acks="all") as producer:
        for number in range(20):
            producer.send(
                topic,
                b'{"id": %d}' % number,
                key=b"k%d" % (number % 3),
                partition=number % 2,
                timestamp=number,
            )
    found = cli("search", topic, 'value.id > 10 and key == "k0"', "--json")
    assert found.code == 0, found.err
    assert [line.split('"offset": ')[1].split(",")[0] for line in found.lines] == ["9", "7", "6"]
    assert "15" in cli("search", topic, "--text", '"ID": 15').lines[0]
    none = cli("search", topic, "value.id > 99")
    assert (none.code, none.out) == (0, "") and "looked at 20 offsets" in none.err
    wrong = cli("search", topic, "value.id >")
    assert wrong.code != 0 and "column 11" in wrong.err
