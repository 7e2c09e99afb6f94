"""How many examples Hypothesis tries: a part of them where the same test also runs without a sanitizer."""

import os


def examples(count: int) -> int:
    """Returns `count`, or a quarter of it where BOWSTRING_SANITIZED is set: each example costs several times as much."""
    return count // 4 if os.environ.get("BOWSTRING_SANITIZED") == "1" else count
