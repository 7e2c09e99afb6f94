"""The rate over a window of samples, beside a slow model of Kafka's Rate."""

from hypothesis import given
from hypothesis import strategies as st
from pytest import approx

from bowstring._native.server.quota_window import Rate


class Model:
    """Kafka's SampledStat and Rate, sample for sample."""

    def __init__(self, samples, window_ms):
        self.samples, self.window_ms = samples, window_ms
        self.ring, self.current = [], 0

    def record(self, value, now):
        if not self.ring:
            self.ring.append([now, now, 0.0])
        if now - self.ring[self.current][0] >= self.window_ms:
            self.current = (self.current + 1) % (self.samples + 1)
            if self.current >= len(self.ring):
                self.ring.append(None)
            self.ring[self.current] = [now, now, 0.0]
        sample = self.ring[self.current]
        sample[1], sample[2] = now, sample[2] + value

    def measure(self, now):
        self.ring = [
            [now, now, 0.0] if now - each[1] >= self.samples * self.window_ms else each for each in self.ring
        ]
        elapsed = now - min((each[0] for each in self.ring), default=now)
        full = elapsed // self.window_ms
        if full < self.samples - 1:
            elapsed += (self.samples - 1 - full) * self.window_ms
        elapsed = max(elapsed, 1)
        return sum(each[2] for each in self.ring) * 1000 / elapsed, elapsed


@given(
    st.integers(1, 12),
    st.integers(1, 1000),
    st.lists(st.tuples(st.integers(0, 3000), st.floats(-10, 1e6)), max_size=60),
    st.floats(1, 1e5),
)
def test_it_is_kafkas_rate(samples, window_ms, steps, bound):
    rate, model = Rate(samples, window_ms), Model(samples, window_ms)
    now = 5000
    for pause, value in steps:
        now += pause
        rate.record(value, now)
        model.record(value, now)
        expected, elapsed = model.measure(now)
        assert rate.per_second(now) == approx(expected)
        wait = (expected - bound) / bound * elapsed if expected > bound else 0
        assert rate.excess_ms(bound, now) == approx(wait, abs=1e-3)


def test_an_excess_is_paid_for_with_time():
    rate = Rate(11, 1000)
    rate.record(30_000, 0)
    assert rate.per_second(0) == 3000
    assert rate.excess_ms(3000, 0) == 0
    assert rate.excess_ms(1000, 0) == 20_000
    assert rate.excess_ms(1000, 10_000) == approx(20_000)
    assert rate.per_second(11_000) == 0, "the window is over"
