import numpy as np
import pytest

from bpfa import Schedule


@pytest.mark.parametrize("delay", [0.0, 1.0, 15.0])
@pytest.mark.parametrize("decay", [0.0, 0.5, 0.75, 1.0])
def test_step_sizes(delay, decay):
    steps = np.arange(1, 50)
    rho = [Schedule(delay, decay)(int(t)) for t in steps]
    np.testing.assert_allclose(np.log(rho), -decay * np.log(steps + delay))


def test_default_is_the_papers():
    assert Schedule() == Schedule(delay=0.0, decay=0.75)
    assert Schedule()(1) == 1.0
