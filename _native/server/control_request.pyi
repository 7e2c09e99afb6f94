"""Types of the objects that DataPlane.take_requests returns."""

class LargeBody:
    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

class ControlRequest:
    connection_id: int
    slot: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: bytes | LargeBody  # None after drop_body()
    body_bytes: int
    received_ns: int
    peer: str
    listener: int
    principal: str
    authenticating: bool
    def drop_body(self) -> None: ...

class SlowBatch:
    topic: str
    partition: int
    codec: int
    wanted_codec: int
    key_required: bool
    look_inside: bool
    missing_schemas: tuple[set[int | bytes], set[int | bytes]] | None
    size_bytes: int
    record_max_bytes: int
    transaction: tuple[str, int, int, int] | None
    @property
    def batch(self) -> bytes: ...
    @property
    def needs_work(self) -> bool: ...
