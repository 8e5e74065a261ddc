import pytest

from oda_rl import Cooling, Stepsize


def test_the_two_coolings_differ_as_the_papers_do():
    assert Cooling(0.8)(9.0) == pytest.approx(7.2)
    assert Cooling(0.8, "lambda")(9.0) == pytest.approx(0.72 / 0.28)


def test_first_stepsize_keeps_the_warm_start():
    assert Stepsize(1.0, 1.0)(1) == 0.5


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Cooling(1.0), "factor"),
        (lambda: Cooling(0.9, "gamma"), "parameter"),
        (lambda: Stepsize(a=0.5), "a must"),
        (lambda: Stepsize(b=-1.0), "b must"),
    ],
)
def test_bad_parameters(make, message):
    with pytest.raises(ValueError, match=message):
        make()
