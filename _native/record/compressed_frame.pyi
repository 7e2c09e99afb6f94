"""Types of compressed_frame.pyx."""

from typing_extensions import Buffer

def looks_compressed(codec: int, data: Buffer) -> bool: ...
