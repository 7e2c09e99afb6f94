from collections.abc import Sequence

from bowstring._native.tls.library import TlsError as TlsError

class TlsContext:
    protocols: tuple[str, ...]
    client_auth: str
    certificate: bytes | None
    def __init__(
        self,
        *,
        server: bool,
        certificate_chain: bytes | None = None,
        private_key: bytes | None = None,
        key_password: str | None = None,
        trusted: bytes | None = None,
        client_auth: str = "none",
        protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3"),
        ciphers: Sequence[str] = (),
        verify: bool = True,
    ) -> None: ...
    @property
    def is_server(self) -> bool: ...
    @property
    def ciphers(self) -> list[str]: ...
    @property
    def capsule(self) -> object: ...
