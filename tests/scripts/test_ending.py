"""Scripts end with a line, whatever comes between."""

import pytest


def interrupt():
    raise KeyboardInterrupt


def full():
    raise OSError(28, "No space left on device", "model.npz")


@pytest.mark.parametrize(
    ("main", "told"),
    [
        (lambda: 2, "2"),
        (interrupt, "Interrupted."),
        (full, "It cannot go on: [Errno 28] No space left on device: 'model.npz'. What was written"),
    ],
)
def test_it_ends_with_a_code_or_a_line(module, main, told):
    with pytest.raises(SystemExit) as ended:
        module("common.ending").run_and_exit(main)
    assert str(ended.value.code).startswith(told)
