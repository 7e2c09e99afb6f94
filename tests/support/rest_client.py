"""A client of a REST proxy, for tests."""

import http.client
import json

from tests.support.waiting import HANG_S


class RestClient:
    """Asks one proxy."""

    def __init__(self, port):
        self.port = port
        self.cluster = self.ask("GET", "/v3/clusters")[1]["data"][0]["cluster_id"]

    def raw(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG_S)
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, given)
        answer = connection.getresponse()
        return answer, answer.read()

    def ask(self, method, path, body=None, **headers):
        """(status, JSON) of a request; paths without /v3 are below the cluster."""
        if not path.startswith("/v3"):
            path = f"/v3/clusters/{self.cluster}{path}"
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
        answer, data = self.raw(method, path, body, **headers)
        return answer.status, json.loads(data) if data else None

    def v2(self, method, path, body=None, form=None, **headers):
        """(status, JSON) of a request of v2; `form` is that of the records in its body."""
        if body is not None and not isinstance(body, str | bytes):
            body = json.dumps(body)
        if form is not None:
            headers["content_type"] = f"application/vnd.kafka.{form}.v2+json"
        answer, data = self.raw(method, path, body, **headers)
        return answer.status, json.loads(data) if data else None

    def lines(self, method, path, body=None, **headers):
        answer, data = self.raw(method, f"/v3/clusters/{self.cluster}{path}", body, **headers)
        assert answer.status == 200, data
        return [json.loads(line) for line in data.splitlines()]
