"""Every function under every stack of transformations; a third of them in each other.

Of higher orders each stack is outermost over every third function, and each function is
under every third stack, with others inside.
"""

import numpy as np
import pytest
from product import (
    derivative, directions, forward, functions, nests, point, reference, reverse_only,
    second_orders, stacks,
)

from minijit import clear_caches
from minijit.trace.base.demand import add_rows
from minijit.trace.jit import jit as jit_module

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("in_double_precision")]


@pytest.fixture
def backend(request, monkeypatch):
    """Jitted functions run on the executor that the test names."""
    clear_caches()
    executors = jit_module.executors
    add_rows("trace.jit.jit")
    monkeypatch.setitem(executors, "default", executors[request.param])
    yield
    clear_caches()


def compare(name, stack, ways):
    """Some nests of one stack over one function, against the reference."""
    f, wanted = every[name], reference(name)
    for way in ways:
        names = nests(stack)[way]
        if name in reverse_only and names[-1] in forward:
            continue
        np.testing.assert_allclose(
            derivative(names, f)(point), wanted[len(names)], rtol=1e-8, atol=1e-8,
            err_msg=f"{' of '.join(names)} of {name}",
        )


every = {**functions, **reverse_only}
jitting = [stack for stack in stacks if "jit" in stack]


def pairs(stacks, *ways):
    """(function, stack, a way to nest it): ways in turn."""
    return [
        (name, stack, ways[(i + k) % len(ways)])
        for i, name in enumerate(every)
        for k, stack in enumerate(stacks)
    ]


@pytest.mark.parametrize("backend", ["eval"], indirect=True)
@pytest.mark.parametrize(
    "name, stack, way", pairs(stacks, "on itself", "third", "alone")
)
def test_eager(backend, name, stack, way):
    compare(name, stack, {"alone", way})


@pytest.mark.parametrize("backend", ["plain"], indirect=True)
@pytest.mark.parametrize(
    "name, stack, way", [p for p in pairs(jitting, "second", "third", "") if p[2]]
)
def test_plain_source(backend, name, stack, way):
    compare(name, stack, [way])


sample = [("python", i) for i in range(1, len(every), 4)]
sample += [pytest.param("llvm", i, marks=pytest.mark.chapter(23))
           for i in range(len(every))]  # fmt: skip


@pytest.mark.parametrize("backend, i", sample, indirect=["backend"])
def test_compiled(backend, i):
    """A sample: a function under one stack, of first and second order."""
    compare(list(every)[i], jitting[i % len(jitting)], ["alone", "second"])


@pytest.mark.parametrize("backend", ["eval"], indirect=True)
@pytest.mark.parametrize("way", second_orders())
@pytest.mark.parametrize("name", functions)
def test_hessians(backend, name, way):
    h = np.asarray(second_orders()[way](functions[name]))
    u, v, _ = directions
    np.testing.assert_allclose(h, h.T, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(u @ h @ v, reference(name)[2], rtol=1e-8, atol=1e-8)


def test_how_many_there_are():
    assert len(functions) >= 12 and len(stacks) >= 14
