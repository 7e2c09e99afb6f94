"""A client that talks SASL message by message, every message and answer in the transcript."""

import base64
import re
from typing import Any, Final

from bowstring.protocol import API_VERSIONS, decode_response, encode_request
from tests.conformance.differential.settings import PASSWORD
from tests.conformance.differential.talk import API_KEYS, CLOSED, SILENT, Talk, build
from tests.support.wire import Wire, frame

LISTENER: Final = "SASL"
NONCE: Final = "fyko+d2lbbFgONRv9qkxdawL"
CHALLENGE: Final = re.compile(r"r=(?P<nonce>[^,]+),s=(?P<salt>[^,]+),i=(?P<iterations>\d+)")


class Client:
    """A client of one connection at the listener, whose every message and answer is in the transcript."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self.wire = Wire(*talk.address(LISTENER))
        talk.also_close(self.wire)

    def ask(self, api: str, version: int, note: str = "", **fields: Any) -> Any:
        """Sends a request; tokens in the answer are compared by what they mean."""
        key = API_KEYS[api]
        request = build(API_VERSIONS[key].request, version, fields)
        data = encode_request(request, version, 1, "sasl")  # type: ignore[arg-type]
        return self.answer(data, f"{api} v{version} {note}", key, version)

    def answer(self, data: bytes, note: str, key: int | None = None, version: int = 0) -> Any:
        """Sends a frame. Without an API's key the answer is a token without a header."""
        try:
            self.wire.send(frame(data))
            payload = self.wire.receive()
        except TimeoutError:
            self._talk.note(note, SILENT)
            return None
        except ConnectionError:
            payload = None
        if payload is None:
            self._talk.note(note, CLOSED)
            return None
        if key is None:
            self._talk.note(note, meaning(payload))
            return payload
        if key == API_KEYS["ApiVersions"] and version > API_VERSIONS[key].highest:
            version = 0  # KIP-511
        _, answer = decode_response(key, version, payload)
        found: dict[str, Any] = {}
        for name in ("error_code", "error_message", "mechanisms"):
            if hasattr(answer, name):
                value = getattr(answer, name)
                found[name] = sorted(value) if isinstance(value, list) else value
        if hasattr(answer, "auth_bytes"):
            found["token"] = meaning(bytes(answer.auth_bytes))
            found["ends"] = answer.session_lifetime_ms > 0  # type: ignore[attr-defined]
        self._talk.note(note, found)
        return answer

    def handshake(self, mechanism: str, version: int = 1) -> None:
        """SaslHandshake."""
        self.ask("SaslHandshake", version, mechanism, mechanism=mechanism)

    def token(self, token: bytes, note: str = "", version: int = 2) -> Any:
        """SaslAuthenticate; returns the token of the answer."""
        answer = self.ask("SaslAuthenticate", version, note, auth_bytes=token)
        return None if answer is None else bytes(answer.auth_bytes)

    def works(self) -> None:
        """Notes whether other requests are answered."""
        self.ask("FindCoordinator", 0, "after that", key="g")

    def is_open(self) -> None:
        """Notes whether the broker has closed the connection, by a request that is always allowed."""
        self.ask("ApiVersions", 0, "after that")


def meaning(token: bytes) -> str:
    """Returns a token without what differs by chance."""
    text = token.decode("utf-8", "replace")
    challenge = CHALLENGE.fullmatch(text)
    if challenge is not None:
        salt = len(base64.b64decode(challenge["salt"])) > 0
        return f"challenge of {challenge['iterations']}, {challenge['nonce'].startswith(NONCE)}, {salt}"
    return "signature" if text.startswith("v=") else text


def plain(user: str = "alice", password: str = PASSWORD, authorization: str = "") -> bytes:
    return f"{authorization}\0{user}\0{password}".encode()
