"""Requests for the control thread that the test takes and answers."""

from tests.support.waiting import wait_until


class Taken(list):
    """The requests taken from the plane so far."""

    def __init__(self, served):
        super().__init__()
        self.plane = served.plane

    def come(self, count: int) -> None:
        def more():
            self.extend(self.plane.take_requests())
            return len(self) >= count

        wait_until(more, f"{count} requests")

    def answer(self, index: int) -> None:
        request = self.pop(index)
        self.plane.reply(request.connection_id, request.slot, b"\x00\x00\x00\x01")
