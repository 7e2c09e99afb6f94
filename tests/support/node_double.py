"""Another node, played: what a request gets is up to the test, also nothing."""

import asyncio
from contextlib import asynccontextmanager

from bowstring.protocol import API_VERSIONS, decode_request, decode_request_header, encode_response
from bowstring.protocol.messages import ApiKeys
from bowstring.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.support.addresses import own_address
from tests.support.waiting import wait_until_async

ALL = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=key, min_version=api.lowest, max_version=api.highest)
        for key, api in API_VERSIONS.items()
    ]
)


class NodeDouble:
    """Answers what `answer(request)` has an answer for; by default it hangs.

    Attributes:
        host, port: Where it listens.
        asked: The requests that have come.
    """

    def __init__(self, answer=lambda request: None):
        self.answer = answer
        self.host = own_address()
        self.port = 0
        self.asked = []

    async def until_asked(self, count=1):
        """Returns the request that comes as number `count`, from 1."""
        await wait_until_async(lambda: len(self.asked) >= count)
        return self.asked[count - 1]

    async def serve(self, reader, writer):
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                header = decode_request_header(frame)
                if header.api_key == ApiKeys.API_VERSIONS:
                    response = ALL
                else:
                    request = decode_request(header.api_key, header.api_version, frame, header.body_offset)
                    self.asked.append(request)
                    response = self.answer(request)
                if response is not None:
                    frame = encode_response(
                        header.api_key, header.api_version, header.correlation_id, response
                    )
                    writer.write(len(frame).to_bytes(4, "big") + frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def served(*doubles):
    """Lets them listen."""
    servers = []
    try:
        for each in doubles:
            servers.append(await asyncio.start_server(each.serve, each.host, 0))
            each.port = servers[-1].sockets[0].getsockname()[1]
        yield
    finally:
        for server in servers:
            server.close()
