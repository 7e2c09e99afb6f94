"""Every micro bench runs once, so that none can rot."""

import pytest

from bench.catalogue import MicroBench, micro_benches


@pytest.mark.parametrize("micro", micro_benches(), ids=lambda micro: micro.name)
def test_each_micro_bench_runs(micro):
    with micro.ready() as call:
        call()


def test_parameters_are_asvs():
    class Two:
        params = ([1, 2], ["a"])

        def setup(self, number, letter):
            self.made = (number, letter)

        def time_it(self, number, letter):
            return self.made == (number, letter)

    from bench.catalogue import parameter_sets

    assert parameter_sets(Two) == [(1, "a"), (2, "a")]
    with MicroBench(Two, "time_it", (1, "a")).ready() as call:
        assert call() is True
