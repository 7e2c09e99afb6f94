"""The thread that reads signing keys goes on whatever it gets, and ends."""

import io
import threading
import urllib.request
from http.client import BadStatusLine, IncompleteRead

import pytest

from bowstring.engine.security.signing_keys import SigningKeys
from tests.support.waiting import wait_until


def parse(document):
    return {each["kid"]: each for each in document["keys"]}


def threads():
    return [each for each in threading.enumerate() if each.name == "signing-keys"]


@pytest.mark.parametrize(
    "bad", [BadStatusLine("no HTTP"), IncompleteRead(b""), b"[]", b'{"keys": 1}', b"[" * 200_000]
)
def test_an_answer_that_is_no_document(bad, monkeypatch):
    answers = [bad, b'{"keys": [{"kid": "a"}]}']

    def answer(url, timeout):
        found = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(found, Exception):
            raise found
        return io.BytesIO(found)

    monkeypatch.setattr(urllib.request, "urlopen", answer)
    keys = SigningKeys("http://issuer/keys", parse, refresh_s=3600, retry_s=0.001, retry_max_s=0.001)
    keys.start()
    wait_until(lambda: "a" in keys.keys)
    keys.close()
    wait_until(lambda: not threads())


def test_the_thread_ends_also_in_the_pause_after_a_read(tmp_path):
    path, reads = tmp_path / "keys.json", []
    path.write_text('{"keys": []}')
    keys = SigningKeys(path.as_uri(), reads.append, refresh_s=3600, retry_s=1, retry_max_s=1)
    keys.start()
    keys.refresh_soon()
    wait_until(lambda: reads)
    keys.close()
    wait_until(lambda: not threads())
