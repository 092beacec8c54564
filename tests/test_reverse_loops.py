"""Loops reversed with checkpoints, against those reversed with tapes; S2's costs."""

from functools import cache, partial
from math import comb

import numpy as np
import pytest
from harness import alike, refused

import minijit as mj
import minijit.numpy as jnp
from minijit import lax
from minijit.trace.array import eval_rules, shape_rules
from minijit.trace.core import Primitive
from minijit.transform.control_flow.checkpointed_loops import (
    extra_steps, reverse_steps, runs_of_each_step,
)
from minijit.transform.control_flow.unions_and_tapes import TapeValue
from minijit.transform.derivatives.linearize import linearize_rules
from minijit.transform.derivatives.transpose import adding, transpose_rules

# Rules are tested, and what runs is counted.
pytestmark = [pytest.mark.chapter(13), pytest.mark.usefixtures("interpreted_doubles")]


# ---- counting: the identity, forward and backward

counts = {"forward": 0, "backward": 0}
forward_p, backward_p = Primitive("count_forward"), Primitive("count_backward")


def counted(name, x):
    counts[name] += 1
    return x


shape_rules |= {p: lambda x: x for p in (forward_p, backward_p)}
eval_rules |= {
    forward_p: partial(counted, "forward"),
    backward_p: partial(counted, "backward"),
}
linearize_rules |= {forward_p: lambda _, x: (forward_p.bind(x), backward_p.bind)}
transpose_rules |= adding({backward_p: lambda ct, x: [backward_p.bind(ct)]})


def count(f, *args):
    """(result, evaluations forward, evaluations backward)"""
    counts.update(forward=0, backward=0)
    return f(*args), counts["forward"], counts["backward"]


# ---- the schedule


@cache
def cheapest(steps, slots):
    """By trying everything: the fewest steps run again."""
    if steps <= 1:
        return 0
    if slots == 1:
        return steps * (steps - 1) // 2
    return min(
        n + cheapest(steps - n, slots - 1) + cheapest(n, slots) for n in range(1, steps)
    )


class Held:
    """A state that counts how many of its kind are alive."""

    alive = most = 0

    def __init__(self, step):
        self.step = step
        Held.alive += 1
        Held.most = max(Held.most, Held.alive)

    def __del__(self):
        Held.alive -= 1


@pytest.mark.parametrize("slots", [1, 2, 3, 5])
def test_schedule_is_the_cheapest_there_is(slots):
    for steps in range(40):
        order, ran = [], []

        def advance(step, n, ran=ran):
            ran.append(n)
            return step + n

        reverse_steps(advance, order.append, 0, steps, slots)
        assert order == list(range(steps))[::-1]
        assert sum(ran) == extra_steps(steps, slots) == cheapest(steps, slots)


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_no_more_states_than_slots_and_the_working_one(slots):
    Held.most = Held.alive = 0
    advance = lambda state, n: Held(state.step + n)
    reverse_steps(advance, lambda state: None, Held(0), 50, slots)
    assert Held.most <= slots + 1


def test_runs_of_each_step_is_binomial():
    for slots in (1, 2, 3, 8):
        for t in range(1, 5):
            most = comb(slots + t, slots)
            assert runs_of_each_step(most, slots) == t
            assert runs_of_each_step(most + 1, slots) == t + 1


# ---- the mode


def iterate(w, x, steps, **mode):
    def body(state):
        i, c = state
        return i + 1, jnp.sin(w @ forward_p.bind(c)) + 0.1 * i

    result = lax.while_loop(lambda state: state[0] < steps, body, (0, x), **mode)[1]
    return jnp.sum(result)


weights, start = np.arange(9.0).reshape(3, 3) / 10.0, np.ones(3)


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 20])
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("wrap", [lambda f: f, mj.jit, mj.checkpoint])
def test_gradient_is_that_of_the_tape(steps, slots, wrap):
    by_tape = partial(iterate, steps=steps)
    by_slots = wrap(partial(iterate, steps=steps, reverse="checkpoint", slots=slots))
    want = mj.grad(by_tape, argnums=(0, 1))(weights, start)
    got = mj.grad(by_slots, argnums=(0, 1))(weights, start)
    alike(got, want, rtol=1e-12)


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize(
    "of",
    [mj.hessian, mj.jacfwd, lambda f: lambda x: mj.linearize(f, x)[1](x),
     lambda f: mj.grad(lambda x: jnp.sum(mj.grad(f)(x) ** 2))],
)
def test_second_derivative_and_forward_mode(of, slots):
    want = of(uncounted())(start)
    np.testing.assert_allclose(of(uncounted(slots))(start), want, rtol=1e-12)


def uncounted(slots=None):
    mode = {"reverse": "checkpoint", "slots": slots} if slots else {}
    body = lambda state: (state[0] + 1, jnp.sin(weights @ state[1]))
    return lambda x: jnp.sum(
        lax.while_loop(lambda state: state[0] < 5, body, (0, x), **mode)[1]
    )


def test_lanes_with_different_trip_counts():
    def f(x, **mode):
        return lax.while_loop(lambda c: c < 10.0, lambda c: c * c + 0.1 * x, x, **mode)

    xs = np.array([1.5, 2.0, 9.0, 20.0])
    by_slots = partial(f, reverse="checkpoint", slots=2)
    want = [float(mj.grad(f)(x)) for x in xs]
    np.testing.assert_allclose(mj.vmap(mj.grad(by_slots))(xs), want)
    summed = mj.grad(lambda xs: jnp.sum(mj.vmap(by_slots)(xs)))(xs)
    np.testing.assert_allclose(summed, want)


@pytest.mark.parametrize("slots", [1, 2, 4, 8])
def test_steps_run_are_those_of_the_formula(slots):
    steps = 33
    f = partial(iterate, steps=steps, reverse="checkpoint", slots=slots)
    _, forward, backward = count(mj.grad(f), weights, start)
    # The pass that counts, the ways to checkpoints, and one run before each step back.
    assert forward == steps + extra_steps(steps, slots) + steps
    assert backward == steps
    assert extra_steps(steps, slots) <= runs_of_each_step(steps, slots) * steps


def test_what_is_kept_does_not_grow_with_the_steps():
    def kept(steps):
        f = partial(iterate, steps=steps, reverse="checkpoint", slots=2)
        leaves = mj.tree.leaves(mj.vjp(f, weights, start)[1])
        assert not any(isinstance(x, TapeValue) for x in leaves)
        return sum(np.asarray(x).nbytes for x in leaves)

    assert kept(3) == kept(300)


def test_errors():
    with pytest.raises(ValueError, match="reverse must be 'tape' or 'checkpoint'"):
        lax.while_loop(lambda c: c < 1, lambda c: c + 1, 0, reverse="no")
    for slots in (0, 2.5):
        with pytest.raises(ValueError, match="slots must be a positive integer"):
            iterate(weights, start, 2, reverse="checkpoint", slots=slots)
    refused(ValueError, "has slots", iterate, weights, start, 2, slots=3)


# ---- S2: a bounded loop of nested scans, which `test_s2` runs


def bounded_while_loop(cond_fun, body_fun, init_val, max_steps, wrap=lambda f: f):
    """The program of jax's issue 8239: a loop of at most a power of two of steps."""

    def _while_loop(data, max_steps):
        if max_steps == 1:
            pred, val = data
            new_val = body_fun(val)
            keep = lambda a, b: lax.select(pred, a, b)
            new_val = mj.tree.map(keep, new_val, val)
            return cond_fun(new_val), new_val
        call = lambda data: _while_loop(data, max_steps // 2)

        @wrap
        def _scan_fn(data, _):
            return lax.cond(data[0], call, lambda x: x, data), None

        return lax.scan(_scan_fn, data, xs=None, length=2)[0]

    return _while_loop((cond_fun(init_val), init_val), max_steps)[1]
