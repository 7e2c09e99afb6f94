"""Creates topics with our own client."""

import uuid

from bowstring import Admin
from tests.support.waiting import wait_until


def made(where: str, partitions: int, **configs: str) -> str:
    name = f"c-{uuid.uuid4().hex[:10]}"
    with Admin(where) as admin:
        admin.create_topic(name, partitions, configs={k.replace("_", "."): v for k, v in configs.items()})
        wait_until(lambda: name in admin.topics())
    return name
