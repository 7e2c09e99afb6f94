"""Reads a producer's batches, and stores them as a broker does."""

import random
import struct
import threading

from bowstring._native.record.decode import decode_records
from bowstring.clients.records import Record
from bowstring.protocol.errors import Errors
from bowstring.protocol.messages.produce import ProduceRequest
from tests.support.fake_broker import CLOSE, SILENCE, batches_of, produced


def identity(batch):
    """Returns producer id, epoch, base sequence and record count of a batch."""
    return struct.unpack_from(">qhii", batch, 43)


class Log:
    """Stores produced batches as a broker does, each once, after the failures that the test requests."""

    def __init__(self, broker, trouble=()):
        self.trouble = list(trouble)
        self.stored = []
        broker.handlers[ProduceRequest] = self.produce

    def produce(self, version, request):
        if self.trouble:
            answer = self.trouble.pop(0)
            if answer in (CLOSE, SILENCE):
                return answer
            if answer:
                return produced(request, error=answer)
        offset = 0
        for known in self.stored:
            if known in batches_of(request) and identity(known)[0] >= 0:
                return produced(request, base_offset=offset)  # its answer came too late, so it was sent again
            offset += identity(known)[3]
        self.stored += batches_of(request)
        return produced(request, base_offset=offset)


class Store:
    """Stores batches like a broker that remembers five batches: refuses gaps, detects duplicates, fails sometimes."""

    def __init__(self, broker, seed, trouble):
        self.random = random.Random(seed)
        self.trouble = trouble
        self.lock = threading.Lock()
        self.batches = {}
        self.next_sequence = {}
        broker.handlers[ProduceRequest] = self.produce

    def produce(self, version, request):
        with self.lock:
            chance = self.random.random()
            if chance < self.trouble / 2:
                return produced(request, error=Errors.NOT_ENOUGH_REPLICAS.code)
            answer = produced(request)
            for topic, answered in zip(request.topic_data, answer.responses, strict=True):
                for part, told in zip(topic.partition_data, answered.partition_responses, strict=True):
                    told.error_code = self.store(part.index, bytes(part.records))
            return CLOSE if chance < self.trouble else answer

    def store(self, index, data):
        _, _, sequence, count = identity(data)
        expected = self.next_sequence.get(index, 0)
        if sequence < expected:
            return 0  # a duplicate of a stored batch
        if sequence > expected:
            return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER.code
        self.next_sequence[index] = expected + count
        self.batches.setdefault(index, []).append(data)
        return 0

    def records(self):
        return {
            index: [record for data in found for record in decode_records(Record, "t", index, data)]
            for index, found in self.batches.items()
        }
