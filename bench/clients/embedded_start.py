"""Prints how many seconds `import bowstring` and `Broker().start()` take in this process."""

import time

began = time.monotonic()
import bowstring  # noqa: E402 - it is measured

if __name__ == "__main__":
    with bowstring.Broker():
        print(time.monotonic() - began)
