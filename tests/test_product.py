"""Every function under every stack of transformations, to third order."""

import numpy as np
import pytest
from product import (
    derivative, directions, forward, functions, nests, point, reference, reverse_only,
    second_orders, stacks,
)

from minijit import clear_caches
from minijit.trace.jit import jit as jit_module

pytestmark = [pytest.mark.chapter(16), pytest.mark.usefixtures("in_double_precision")]


@pytest.fixture
def backend(request, monkeypatch):
    """Jitted functions run on the executor that the test names."""
    clear_caches()
    executors = jit_module.executors
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


@pytest.mark.parametrize("backend", ["eval"], indirect=True)
@pytest.mark.parametrize("stack", stacks)
@pytest.mark.parametrize("name", every)
def test_eager(backend, name, stack):
    compare(name, stack, ["alone", "on itself", "third"])


jitting = [stack for stack in stacks if "jit" in stack]


@pytest.mark.parametrize("backend", ["plain"], indirect=True)
@pytest.mark.parametrize("stack", jitting)
@pytest.mark.parametrize("name", every)
def test_plain_source(backend, name, stack):
    """All second orders; of the third ones, which take long to compile, a sample.

    Each stack is outermost over every third function, and each function is under every
    third stack: eagerly, all of them are.
    """
    sampled = ([*every].index(name) + jitting.index(stack)) % 3 == 0
    compare(name, stack, ["second", "third"] if sampled else ["second"])


@pytest.mark.parametrize(
    "backend, i",
    [
        *(("python", i) for i in range(1, len(every), 4)),
        *(
            pytest.param("llvm", i, marks=pytest.mark.chapter(23))
            for i in range(len(every))
        ),
    ],
    indirect=["backend"],
)
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
