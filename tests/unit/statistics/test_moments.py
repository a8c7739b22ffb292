import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from megareward.statistics.moments import Moments


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 10**6))
def test_moments_of_a_stream_equal_those_of_all_its_entries_at_once(sizes, seed):
    generator = torch.Generator().manual_seed(seed)
    batches = [1e3 + torch.randn(n, 2, 3, generator=generator) for n in sizes]
    moments = Moments.empty((2, 3))
    for batch in batches:
        moments = moments.update(batch)
    everything = torch.cat(batches).double()
    assert moments.n == len(everything)
    if len(everything):
        torch.testing.assert_close(moments.mean, everything.mean(0))
        torch.testing.assert_close(moments.std, everything.std(0, correction=0), rtol=1e-6, atol=1e-6)


def test_the_standard_deviation_of_nothing_is_zero():
    assert Moments.empty().std == 0
