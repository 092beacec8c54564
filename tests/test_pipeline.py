"""The order of the compiler's passes: one list, in which each has its place."""

import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit.compile import pipeline
from minijit.compile.pipeline import Stage
from minijit.trace.demand import add_rows

pytestmark = pytest.mark.chapter(26)


def test_each_place_is_filled():
    mj.jit(lambda x: x + 1)(jnp.ones(3))
    add_rows("run.device.grid")
    from minijit.run.cuda import executor  # noqa: F401

    stages = {k: v for k, v in vars(pipeline).items() if isinstance(v, Stage)}
    assert len(stages) == 9
    for name, stage in stages.items():
        assert set(stage) == set(stage.names), name
        assert stage.passes == tuple(stage[name] for name in stage.names), name


def test_passes_run_in_the_order_of_the_list_whoever_comes_first():
    stage = Stage("one", "two", "three")
    stage |= {"three": 3}
    stage |= {"one": 1}
    assert stage.passes == (1, 3)
    with pytest.raises(KeyError, match=r"without a place in the pipeline: \['four'\]"):
        stage |= {"four": 4}
    assert stage.passes == (1, 3)
