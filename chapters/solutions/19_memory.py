"""Solutions to chapter 19."""

from dataclasses import replace

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.compile.lower.walk import lower
from minijit.compile.memory.arena import (
    arranged, buffers_of, in_arena, make_plan, most_at_once,
)
from minijit.compile.memory.overwriting import dependences
from minijit.compile.simplify.folding import simplify


def program_of(f, *args):
    return lower(simplify(mj.make_jaxpr(f)(*args)), "f")


def hard_case():
    return [(3, 6), (4, 5), (0, 3), (1, 1)], [64, 128, 64, 128]


def check_hard_case(hard_case):
    """Random lifetimes of five steps will do: try a few thousand."""
    lives, sizes = hard_case()
    assert 4 <= len(lives) == len(sizes) <= 8
    assert all(0 <= first <= last for first, last in lives)
    assert all(size > 0 and size % 64 == 0 for size in sizes)
    assert arranged(lives, sizes)[1] > most_at_once(lives, sizes)


def earliest(program):
    last = {b: life[1] for b, life in in_arena(program).items()}
    body, before = program.body, dependences(program.body)
    readers = {b: {i for i, s in enumerate(body) if b in buffers_of(s)} for b in last}
    order, begun = [], set()
    while len(order) < len(body):
        done = set(order)
        ready = [i for i in range(len(body)) if i not in done and before[i] <= done]

        def saved(i, done=done):
            own = [b for b in buffers_of(body[i]) if b in last]
            dies = sum(b.nbytes for b in own if readers[b] <= done | {i})
            return dies - sum(b.nbytes for b in own if b not in begun)

        best = max(ready, key=lambda i: (saved(i), -i))
        order.append(best)
        begun.update(buffers_of(body[best]))
    return replace(program, body=tuple(body[i] for i in order))


def check_earliest(earliest):
    """Keep the steps that are over in a set; a step is ready if all before it are."""

    def late(x):
        a, b, c = x @ x, x @ x.T, x.T @ x
        return jnp.stack([jnp.tanh(y).sum() for y in (a, b, c)])

    x = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    program = program_of(late, x)
    large = tuple(s for s in program.body if s in program.calls)
    rest = tuple(s for s in program.body if s not in large)
    program = replace(program, body=large + rest)
    sooner = earliest(program)
    assert sorted(map(id, sooner.body)) == sorted(map(id, program.body))
    order = [program.body.index(step) for step in sooner.body]
    for i, needed in enumerate(dependences(program.body)):
        assert all(order.index(j) < order.index(i) for j in needed)
    assert make_plan(program).nbytes >= 3 * x.nbytes
    assert make_plan(sooner).nbytes < 2 * x.nbytes
