"""Records whose values are their numbers, in topics and in batches."""

from bowstring._native.record.encode import encode_batch
from bowstring.clients.producer.producer import Producer


def fill(bootstrap, topic, count, partitions=1, **options):
    with Producer(bootstrap, **options) as producer:
        for i in range(count):
            producer.send(
                topic, b"value %06d" % i, key=b"%d" % i, partition=i % partitions, timestamp=1000 + i
            )


def numbered(base_offset, count=10, **fields):
    made = [(None, b"value %d" % (base_offset + i), 0, None) for i in range(count)]
    return encode_batch(made, base_offset=base_offset, **fields)
