"""The REST proxy's v3 API over HTTP, against a broker."""

import base64
import gzip
import http.client
import io
import json
import socket
import uuid

import pyarrow as pa
import pytest

from bowstring.clients.consumer.consumer import Consumer
from bowstring.clients.producer.producer import Producer
from bowstring.clients.records import TopicPartition
from bowstring.rest.app import RestApp
from bowstring.rest.options import RestOptions
from tests.support.rest_client import RestClient
from tests.support.served_site import served
from tests.support.waiting import HANG_S, wait_until


@pytest.fixture(scope="module")
def rest(bootstrap):
    with served(RestApp(RestOptions(bootstrap, record_bytes_max=100_000))) as site:
        yield RestClient(site.port)


def test_the_cluster_and_its_brokers(rest):
    status, cluster = rest.ask("GET", "")
    assert status == 200
    assert cluster["topics"]["related"].endswith(f"/v3/clusters/{rest.cluster}/topics")
    assert cluster["metadata"]["resource_name"] == f"crn:///kafka={rest.cluster}"
    brokers = rest.ask("GET", "/brokers")[1]["data"]
    id = brokers[0]["broker_id"]
    assert rest.ask("GET", f"/brokers/{id}")[1] == brokers[0]
    assert rest.ask("GET", "/brokers/99")[0] == rest.ask("GET", "/brokers/x")[0] == 404
    assert rest.ask("GET", "/v3/clusters/other/topics")[0] == 404


def test_the_life_of_a_topic(rest, topic):
    wanted = {
        "topic_name": topic,
        "partitions_count": 2,
        "configs": [{"name": "retention.ms", "value": "-1"}],
    }
    status, dry = rest.ask("POST", "/topics", wanted | {"validate_only": True})
    assert (status, dry["partitions_count"]) == (200, 2)
    status, made = rest.ask("POST", "/topics", wanted)
    assert (status, made["partitions_count"], made["replication_factor"]) == (201, 2, 1)
    assert rest.ask("POST", "/topics", wanted)[1]["error_code"] == 40002
    assert rest.ask("GET", f"/topics/{topic}")[1] == made
    assert rest.ask("PATCH", f"/topics/{topic}", {"partitions_count": 3})[1]["partitions_count"] == 3
    assert rest.ask("PATCH", f"/topics/{topic}", {"partitions_count": 1})[1]["error_code"] == 40002
    partitions = rest.ask("GET", f"/topics/{topic}/partitions")[1]["data"]
    assert [each["partition_id"] for each in partitions] == [0, 1, 2]
    replicas = rest.ask("GET", f"/topics/{topic}/partitions/1/replicas")[1]["data"]
    assert [(each["is_leader"], each["is_in_sync"]) for each in replicas] == [(True, True)]
    broker = replicas[0]["broker_id"]
    assert rest.ask("GET", f"/topics/{topic}/partitions/1/replicas/{broker}")[1] == replicas[0]
    assert replicas[0] in rest.ask("GET", f"/brokers/{broker}/partition-replicas")[1]["data"]
    assert rest.ask("GET", f"/topics/{topic}/partitions/3")[1]["error_code"] == 40402
    assert rest.ask("GET", f"/topics/{topic}/partitions/1/reassignment")[0] == 404
    assert rest.ask("GET", "/topics/-/partitions/-/reassignment")[1]["data"] == []
    assert rest.ask("DELETE", f"/topics/{topic}") == (204, None)
    assert rest.ask("GET", f"/topics/{topic}")[1]["error_code"] == 40403


def test_configs_of_a_topic(rest, new_topic):
    path = f"/topics/{new_topic()}/configs"
    assert rest.ask("PUT", f"{path}/retention.ms", {"value": "77000"}) == (204, None)
    found = rest.ask("GET", f"{path}/retention.ms")[1]
    assert (found["value"], found["source"], found["is_default"]) == ("77000", "DYNAMIC_TOPIC_CONFIG", False)
    assert [each["source"] for each in found["synonyms"]][:1] == ["DYNAMIC_TOPIC_CONFIG"]
    changes = {
        "data": [{"name": "retention.ms", "operation": "DELETE"}, {"name": "segment.ms", "value": "100000"}]
    }
    assert rest.ask("POST", f"{path}:alter", changes | {"validate_only": True})[0] == 204
    assert rest.ask("GET", f"{path}/retention.ms")[1] == found
    assert rest.ask("POST", f"{path}:alter", changes)[0] == 204
    values = {each["name"]: each["value"] for each in rest.ask("GET", path)[1]["data"]}
    assert values["retention.ms"] != "77000" and values["segment.ms"] == "100000"
    assert rest.ask("DELETE", f"{path}/segment.ms")[0] == 204
    assert rest.ask("PUT", f"{path}/no.such", {"value": "1"})[0] == 404
    assert rest.ask("PUT", f"{path}/retention.ms", {"value": "x"})[1]["error_code"] == 40002
    assert rest.ask("GET", f"{path}/no.such")[0] == 404
    assert rest.ask("GET", "/topics/no-such/configs")[1]["error_code"] == 40403


def test_configs_of_several_topics(rest, new_topic):
    names = [new_topic(), new_topic(), "no-such-topic"]
    changes = [{"name": "retention.ms", "value": "88000"}]
    wanted = {"data": [{"topic_name": name, "configs": changes} for name in names[:2]]}
    assert rest.ask("POST", "/topics/-/configs:alter", wanted) == (204, None)
    wanted["data"].append({"topic_name": names[2], "configs": changes})
    status, found = rest.ask("POST", "/topics/-/configs:alter", wanted)
    assert status == 207
    assert [(each["topic_name"], each["error_code"]) for each in found["failures"]] == [(names[2], 40403)]
    values = [
        each["value"]
        for each in rest.ask("GET", "/topics/-/configs")[1]["data"]
        if each["topic_name"] in names and each["name"] == "retention.ms"
    ]
    assert values == ["88000"] * 2


def test_configs_of_brokers(rest):
    id = rest.ask("GET", "/brokers")[1]["data"][0]["broker_id"]
    found = rest.ask("GET", f"/brokers/{id}/configs/num.partitions")[1]
    assert (found["broker_id"], found["kind"]) == (id, "KafkaBrokerConfig")
    assert rest.ask("GET", "/brokers/99/configs")[0] == 404
    assert rest.ask("PUT", "/broker-configs/log.retention.ms", {"value": "100000000"})[0] == 204
    assert rest.ask("GET", "/broker-configs/log.retention.ms")[1]["source"] == "DYNAMIC_DEFAULT_BROKER_CONFIG"
    assert rest.ask("DELETE", "/broker-configs/log.retention.ms")[0] == 204
    assert rest.ask("GET", "/broker-configs/log.retention.ms")[0] == 404


def test_pages_lead_to_each_other(rest, new_topic):
    path = f"/topics/{new_topic(5)}/partitions"
    found, following = [], f"/v3/clusters/{rest.cluster}{path}?page_size=2"
    while following:
        page = rest.ask("GET", following)[1]
        found.append([each["partition_id"] for each in page["data"]])
        following = page["metadata"]["next"] and "/v3" + page["metadata"]["next"].partition("/v3")[2]
    assert found == [[0, 1], [2, 3], [4]]
    assert rest.ask("GET", f"{path}?page_size=0")[0] == rest.ask("GET", f"{path}?page_size=x")[0] == 400


def test_groups_and_lags(rest, bootstrap, new_topic, new_group):
    topic = new_topic(2)
    with Producer(bootstrap) as producer:
        for number in range(5):
            producer.send(topic, b"x", partition=number % 2)
        producer.flush()
    group = f"{new_group}/a b"
    path = f"/consumer-groups/{group.replace('/', '%2F').replace(' ', '%20')}"
    assert rest.ask("GET", path)[0] == 404
    with Consumer(bootstrap, group_id=group, auto_offset_reset="earliest") as consumer:
        consumer.subscribe([topic])
        while len(consumer.assignment()) < 2:
            consumer.poll(0.1, max_records=1)
        consumer.commit({TopicPartition(topic, 0): 1, TopicPartition(topic, 1): 2})
        described = rest.ask("GET", path)[1]
        assert (described["consumer_group_id"], described["state"]) == (group, "STABLE")
        assert described in rest.ask("GET", "/consumer-groups")[1]["data"]
        (member,) = rest.ask("GET", f"{path}/consumers")[1]["data"]
        of_member = f"{path}/consumers/{member['consumer_id']}"
        assert rest.ask("GET", of_member)[1] == member
        assignments = rest.ask("GET", f"{of_member}/assignments")[1]["data"]
        assert [each["partition_id"] for each in assignments] == [0, 1]
        assert rest.ask("GET", f"{of_member}/assignments/{topic}/partitions/1")[1] == assignments[1]
        lags = rest.ask("GET", f"{path}/lags")[1]["data"]
        assert [(each["partition_id"], each["lag"]) for each in lags] == [(0, 2), (1, 0)]
        assert rest.ask("GET", f"{path}/lags/{topic}/partitions/0")[1] == lags[0]
        summary = rest.ask("GET", f"{path}/lag-summary")[1]
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_partition_id"]) == (2, 2, 0)
        assert summary["max_lag_consumer_id"] == member["consumer_id"]
    assert rest.ask("GET", f"{path}/consumers/nobody")[0] == 404
    assert rest.ask("GET", f"{path}/lags/{topic}/partitions/7")[0] == 404


def test_every_form_of_key_and_value(rest, new_topic, consumer_for):
    topic = new_topic(3)
    body = """
        {"value": {"type": "JSON", "data": {"a": [1, "x y", null]}}}
        {"key": {"type": "STRING", "data": "k\\u00e9"}, "value": {"type": "BINARY", "data": "AP8="},
         "partition_id": 2, "timestamp": "2021-02-05T19:14:42.5Z",
         "headers": [{"name": "h", "value": "aGk="}, {"name": "n", "value": null}]}{"key":{"type":"JSON","data":1}}
        {"value": {"type": "STRING", "data": null}}{}"""
    answers = rest.lines("POST", f"/topics/{topic}/records", body, content_type="application/json")
    assert [each["error_code"] for each in answers] == [200] * 5
    assert all(each["cluster_id"] == rest.cluster and each["topic_name"] == topic for each in answers)
    second = answers[1]
    assert second["partition_id"] == 2
    assert second["timestamp"] == "2021-02-05T19:14:42.500Z"
    assert (second["key"], second["value"]) == ({"type": "STRING", "size": 3}, {"type": "BINARY", "size": 2})
    assert answers[3]["value"] == {"type": "STRING", "size": -1} and "key" not in answers[3]
    consumer = consumer_for(topic)
    found = {}
    while len(found) < 5:
        found |= {(each.partition, each.offset): each for each in consumer.poll(1)}
    records = [found[each["partition_id"], each["offset"]] for each in answers]
    assert [each.value for each in records] == [b'{"a":[1,"x y",null]}', b"\0\xff", None, None, None]
    assert [each.key for each in records] == [None, "ké".encode(), b"1", None, None]
    assert records[1].headers == (("h", b"hi"), ("n", None))
    assert records[1].timestamp == 1612552482500


@pytest.mark.parametrize(
    ("record", "code"),
    [
        ('{"value": {"type": "BINARY", "data": "a"}}', 400),
        ('{"value": {"type": "BINARY", "data": 1}}', 400),
        ('{"value": {"type": "STRING", "data": 1}}', 400),
        ('{"value": {"type": "XML", "data": "a"}}', 400),
        ('{"value": {"type": "JSON", "data": "a", "schema_id": 1}}', 400),
        ('{"value": {"type": "JSON", "data": tru}}', 400),
        ('{"value": "a"}', 400),
        ('{"values": 1}', 400),
        ('{"partition_id": 1.5}', 400),
        ('{"partition_id": -1}', 40402),
        ('{"partition_id": 77, "value": {"type": "STRING", "data": ""}}', 40402),
        ('{"timestamp": "yesterday"}', 400),
        ('{"headers": [{"value": "aGk="}]}', 400),
        ('{"headers": [{"name": "a", "value": "?"}]}', 400),
        ('{"value": {"data": 1}}', 42207),
        ('{"value": {"type": "AVRO", "schema": "\\"int\\"", "data": 1}}', 42207),
        ('{"value": {"type": "JSON", "data": ' + "[" * 2000 + "]" * 2000 + "}}", 400),
        ('{"value": {"type": "STRING", "data": "' + "a" * 110_000 + '"}}', 413),
        ('{"value": {"type": "STRING", "data": "' + "a" * 300_000 + '"}}', 413),
    ],
)
def test_wrong_records_do_not_end_the_stream(rest, new_topic, record, code):
    good = '{"value":{"type":"STRING","data":"a"}}'
    answers = rest.lines("POST", f"/topics/{new_topic()}/records", f"{good}{record}\n{good}")
    codes = [each["error_code"] for each in answers]
    # A record that is known to be too large before its end has come ends the stream.
    assert codes == [200, code, 200] or (code == 413 and codes == [200, 413])
    assert [each.get("offset") for each in answers] == [0, None, 1]


@pytest.mark.parametrize("rest_of_body", ["]", "1", '{"value":', "{]} x", '{"a":"'])
def test_what_is_no_json_ends_the_stream(rest, new_topic, rest_of_body):
    body = '{"value":{"type":"STRING","data":"a"}}' + rest_of_body
    answers = rest.lines("POST", f"/topics/{new_topic()}/records", body)
    assert answers[0]["error_code"] == 200
    assert {each["error_code"] for each in answers[1:]} == {400}


def test_requests_that_are_no_records(rest, new_topic):
    path = f"/topics/{new_topic()}/records"
    assert rest.ask("POST", path, "")[1]["error_code"] == 42206
    assert rest.ask("POST", path, " \n")[0] == 422
    assert rest.ask("POST", path, "{}", content_type="text/plain")[0] == 415
    assert rest.ask("POST", "/topics", "{")[0] == rest.ask("POST", "/topics", '{"topic_name": 1}')[0] == 400
    assert rest.ask("POST", "/topics", "[" * 100_000)[0] == 400
    assert rest.ask("POST", "/topics", b"\xff")[0] == 400
    assert rest.ask("POST", "/topics")[1]["error_code"] == 42206


def test_a_batch_has_an_answer_by_id(rest, new_topic):
    path = f"/topics/{new_topic()}/records:batch"
    entries = [
        {"id": "a", "value": {"type": "STRING", "data": "x"}},
        {"id": "b", "value": {"type": "BINARY", "data": 1}},
        {"id": "c", "key": {"type": "JSON", "data": {"k": 1}}},
    ]
    status, found = rest.ask("POST", path, {"entries": entries})
    assert status == 207
    assert [(each["id"], each["offset"]) for each in found["successes"]] == [("a", 0), ("c", 1)]
    assert [(each["id"], each["error_code"]) for each in found["failures"]] == [("b", 400)]
    for wrong in ([], entries[:1] * 2, [{"id": 1}], [{"id": ""}], [{"id": "x" * 81}], [{"id": "1"}] * 1001):
        assert rest.ask("POST", path, {"entries": wrong})[1]["error_code"] == 42208


def test_a_stream_is_answered_while_it_goes_on(rest, new_topic):
    path = f"/v3/clusters/{rest.cluster}/topics/{new_topic()}/records"
    with socket.create_connection(("127.0.0.1", rest.port), timeout=HANG_S) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection, method="POST")
        record = b'{"value":{"type":"STRING","data":"a"}}'
        for number in range(3):
            # In two pieces: a record may end in a later chunk than it begins in.
            for piece in (record[:20], record[20:]):
                connection.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            if number == 0:
                answer.begin()
            assert json.loads(answer.readline())["offset"] == number
        connection.sendall(b"0\r\n\r\n")
        assert answer.read() == b""


def test_many_records_keep_their_order(rest, new_topic):
    topic = new_topic(2)
    body = "".join(
        f'{{"partition_id":{number % 2},"value":{{"type":"JSON","data":{number}}}}}\n'
        for number in range(30_000)
    )
    answers = rest.lines("POST", f"/topics/{topic}/records", body)
    assert [(each["partition_id"], each["offset"]) for each in answers] == [
        (n % 2, n // 2) for n in range(30_000)
    ]
    found = rest.lines("GET", f"/topics/{topic}/records?value=json&partition=1")
    assert [each["value"] for each in found] == list(range(1, 30_000, 2))


def produced(rest, topic, count):
    body = "".join(
        json.dumps({"key": {"type": "STRING", "data": str(n)}, "value": {"type": "STRING", "data": f"v{n}"}})
        for n in range(count)
    )
    rest.lines("POST", f"/topics/{topic}/records", body)


def test_records_by_offset_time_and_limit(rest, new_topic):
    topic = new_topic()
    produced(rest, topic, 10)

    def read(query):
        return [each["offset"] for each in rest.lines("GET", f"/topics/{topic}/records?{query}")]

    assert read("") == list(range(10))
    assert read("from=7") == read("from=-3") == read("from=0:7") == [7, 8, 9]
    assert read("from=2&to=4") == [2, 3]
    assert read("from=8&to=99") == [8, 9]
    assert read("limit=2") == [0, 1]
    assert read("from=latest") == read("from=2099-01-01") == []
    assert read("from=2000-01-01&limit=1") == [0]
    answer, _ = rest.raw("GET", f"/v3/clusters/{rest.cluster}/topics/{topic}/records?partition=5")
    assert answer.status == 404
    assert rest.ask("GET", f"/topics/no-such-{uuid.uuid4()}/records")[1]["error_code"] == 40403
    assert rest.ask("GET", f"/topics/{topic}/records?nonsense=1")[0] == 400


def test_records_as_arrow_and_csv(rest, new_topic):
    topic = new_topic()
    produced(rest, topic, 3)
    path = f"/v3/clusters/{rest.cluster}/topics/{topic}/records"
    answer, data = rest.raw("GET", path, accept="application/vnd.apache.arrow.stream")
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    table = pa.ipc.open_stream(io.BytesIO(data)).read_all()
    assert table["value"].to_pylist() == [b"v0", b"v1", b"v2"]
    assert table["offset"].to_pylist() == [0, 1, 2]
    answer, data = rest.raw("GET", f"{path}?format=arrow&columns=key", accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    table = pa.ipc.open_stream(io.BytesIO(gzip.decompress(data))).read_all()
    assert table.to_pydict() == {"key": [b"0", b"1", b"2"]}
    _, data = rest.raw("GET", f"{path}?format=csv&value=base64&limit=1")
    _, row, end = data.decode().split("\r\n")
    assert row.endswith(f",0,,,{base64.b64encode(b'v0').decode()},") and end == ""
    answer, data = rest.raw("HEAD", path)
    assert (answer.status, data) == (200, b"")


class Events:
    """An open tail."""

    def __init__(self, rest, path, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", rest.port, timeout=HANG_S)
        given = {"accept": "text/event-stream"} | {
            name.replace("_", "-"): text for name, text in headers.items()
        }
        self.connection.request("GET", f"/v3/clusters/{rest.cluster}{path}", headers=given)
        self.answer = self.connection.getresponse()
        assert self.answer.status == 200
        assert self.answer.readline() == b"retry: 3000\n"

    def next(self):
        """(id or None, record) of the next event."""
        id = None
        while True:
            line = self.answer.readline().decode().rstrip("\n")
            if line.startswith("id: "):
                id = line[4:]
            if line.startswith("data: "):
                return id, json.loads(line[6:])

    def close(self):
        self.connection.close()


def test_a_tail_shows_new_records_and_goes_on_after_a_break(rest, new_topic):
    topic = new_topic()
    produced(rest, topic, 2)
    tail = Events(rest, f"/topics/{topic}/records")
    produced(rest, topic, 1)
    id, record = tail.next()
    assert (id, record["offset"], record["value"]) == ("0:3", 2, "v0")
    tail.close()
    produced(rest, topic, 2)
    tail = Events(rest, f"/topics/{topic}/records", last_event_id=id)
    assert [tail.next()[1]["offset"] for _ in range(2)] == [3, 4]
    tail.close()
    tail = Events(rest, f"/topics/{topic}/records?from=earliest&limit=5")
    assert [tail.next()[1]["offset"] for _ in range(5)] == list(range(5))
    assert tail.answer.read() == b"\n"
    tail.close()


def test_streams_are_bounded(bootstrap, new_topic):
    topic = new_topic()
    with served(RestApp(RestOptions(bootstrap, streams_max=2, streams_of_one=2))) as site:
        rest = RestClient(site.port)
        produced(rest, topic, 1)
        tails = [Events(rest, f"/topics/{topic}/records?from=earliest") for _ in range(2)]
        assert [tail.next()[1]["offset"] for tail in tails] == [0, 0]
        assert rest.ask("GET", f"/topics/{topic}/records")[0] == 429
        for tail in tails:
            tail.close()
        path = f"/v3/clusters/{rest.cluster}/topics/{topic}/records"
        wait_until(lambda: rest.raw("GET", path)[0].status == 200)


def test_a_topic_is_created_by_its_first_record_and_stays_deleted(rest, admin, topic):
    assert (
        rest.ask("POST", f"/topics/{topic}/records", '{"value":{"type":"STRING","data":"a"}}')[1]["offset"]
        == 0
    )
    admin.delete_topics([topic])
    other = rest.ask("POST", f"/topics/{topic}-2/records", '{"value":{"type":"STRING","data":"a"}}')[1]
    assert other["error_code"] == 200  # the producer has new metadata now
    assert topic not in admin.topics()
    assert rest.ask("POST", "/topics/a%20name/records", "{}")[1]["error_code"] == 40403
    admin.delete_topics([f"{topic}-2"])


def test_plain_pages(rest):
    assert rest.raw("GET", "/health")[1] == b'{"status":"ok"}'
    assert b"bowstring_rest_streams 0.0" in rest.raw("GET", "/metrics")[1]
    document = json.loads(rest.raw("GET", "/v3/openapi.json")[1])
    assert "/v3/clusters/{cluster_id}/topics/{topic_name}/records" in document["paths"]
