"""Where answers have the time that clients wait."""

import random

import pytest

from bowstring.engine.requests.answers import NO_THROTTLE_TIME, throttle_time_at, with_throttle_time
from bowstring.protocol import API_VERSIONS, encode_response
from tests.support.example_messages import example

KEYS = [0, 1, 2, 3, 8, 9, 10, 12, 18, 68]


@pytest.mark.parametrize("key", KEYS)
def test_the_time_that_a_client_waits_is_replaced(key):
    api = API_VERSIONS[key]
    for version in range(api.lowest, api.highest + 1):
        answer = example(api.response, version, random.Random(version))
        payload = encode_response(key, version, 7, answer)
        replaced = with_throttle_time(key, version, payload, 0x01020304)
        if throttle_time_at(key, version) == NO_THROTTLE_TIME:
            assert replaced == payload
            continue
        answer.throttle_time_ms = 0x01020304
        assert replaced == encode_response(key, version, 7, answer)


def test_the_answers_of_short_ways_have_it_first():
    assert throttle_time_at(12, 0) == NO_THROTTLE_TIME
    assert throttle_time_at(12, 3) == 4
    assert throttle_time_at(12, 4) == throttle_time_at(68, 0) == 5
    for key, version in ((2, 2), (3, 3), (8, 3), (9, 3), (10, 1)):
        assert throttle_time_at(key, version) == 4
