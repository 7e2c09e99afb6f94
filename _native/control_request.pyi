"""Types of what DataPlane.take_requests gives out."""

class ControlRequest:
    connection_id: int
    slot: int
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body: bytes
    received_ns: int
    peer: str
    listener: int
    principal: str

class SlowBatch:
    batch: bytes
    topic: str
    partition: int
    codec: int
    wanted_codec: int
    key_required: bool
