"""Runs one load, given as JSON, and prints its figures as JSON."""

from __future__ import annotations

import json
import sys

from bench.coordinators.loads import LOADS, Order
from bench.coordinators.sharing import shared_records
from bench.coordinators.storms import STORMS
from bench.coordinators.transactions import transactions


def main() -> None:
    """Reads the order from the command line."""
    order = Order(**json.loads(sys.argv[1]))
    print(
        json.dumps(
            (LOADS | STORMS | {"shared-records": shared_records, "transactions": transactions})[order.load](
                order
            )
        )
    )


if __name__ == "__main__":
    main()
