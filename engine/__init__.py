"""The broker's brain: sans-I/O cores and thin asyncio shells."""
