import pytest

from implanting.bench.memory import peak_and_size, resident_peak

pytestmark = pytest.mark.skipif(not resident_peak(), reason="needs a system that tells the peak of a process")

HOLD = """
held = bytes(int(sys.argv[1]))
size = len(held.replace(bytes(1), bytes([1])))
"""


def test_the_peak_of_a_process_counts_what_it_held():
    """Two copies of so many bytes, of which the first is not touched, and so takes no memory."""
    (low, few), (high, many) = (peak_and_size(HOLD, size) for size in (1_000, 50_000_000))
    assert (few, many) == (1_000, 50_000_000)
    assert 45_000_000 < high - low < 110_000_000
