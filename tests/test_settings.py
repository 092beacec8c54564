"""Settings: each decides something, the ledger says what, and names the setting."""

from dataclasses import fields

import numpy as np
import pytest

import minijit as jax
import minijit.numpy as jnp
from minijit import lax, nn
from minijit.compile.decisions import decisions_about
from minijit.compile.loops.statements import Kernel, Region
from minijit.compile.lower.walk import lower
from minijit.compile.schedule.placing_rules import arrange
from minijit.compile.settings import Settings
from minijit.compile.simplify.folding import simplify
from minijit.run.loading import rewritten
from minijit.trace.base.config import config

pytestmark = pytest.mark.chapter(27)


# Whatever is turned, however small, is written past the caches.
PAST_CACHES = {"panel_from": 0, "stream_bytes": 0}


def ones(*shape):
    return jnp.ones(shape, "float32")


def rounds(x):
    for _ in range(5):
        x = jnp.roll(x * x, 1, 1)
        x = jnp.sin(x + 1) * (x - 2) / (x * x + 3) + jnp.flip(x, 1)
    return x


def convolution(image, kernel):
    return lax.conv_general_dilated(image, kernel, (1, 1), "VALID")


square, matrices = ones(4, 4), ones(9, 4, 4)
image, wide = ones(2, 8, 9, 9), ones(16, 8, 3, 3)


def long_loop(x):
    return lax.fori_loop(0, 9, lambda i, c: jnp.sin(c.sum()) + c, x)


def decay(x):
    return lax.fori_loop(0, 9, lambda i, c: c * 0.5 + i, x)


@jax.jit
def chain(x):
    for _ in range(9):
        x = jnp.sin(x @ x)
    return x


def views(x):
    return tuple(x.reshape(n, -1).sum(0) for n in (2, 3, 4, 5, 6))


# setting: (function, arguments, value[, other settings that hold with both values])
cases = {
    "enabled": (lambda x: (x.sum(1), x * 2), [square], False),
    "most_operations": (lambda x: (jnp.sin(x).sum(1), jnp.cos(x) * 2), [square], 1),
    "most_buffers": (lambda x: (jnp.sin(x).sum(1), jnp.cos(x) * 2), [square], 1),
    "small_function": (lambda x: chain(chain(x)), [square], 99, {"small_product": 0}),
    "cheap": (lambda x: (y := x * 2 + 1)[:, None] * y, [ones(9)], 0),
    "cheap_in_all": (lambda x: (y := x * 2 + 1)[:, None] * y, [ones(9)], 0),
    "row_bytes": (nn.softmax, [ones(24, 40)], 0),
    "column_share": (
        lambda x, y: (x.sum(0), x * y, y.sum(0)), [ones(40, 40)] * 2, 2.0
    ),
    "neighbours": (views, [ones(60)], 0),
    "block_elements": (jax.vmap(rounds), [matrices], 2),
    "block_operations": (rounds, [square], 2),
    "fewest_totals": (lambda x: x.sum(0), [ones(40, 6)], 4),
    "rows_at_once": (lambda x: x.sum(0), [ones(3, 40)], 2),
    "row_piece": (lambda x: x.sum(0), [ones(9, 4000)], 64),
    "part_total": (lambda x: x.sum(), [ones(1000)], 100, {"shortest_part": 16}),
    "most_parts": (
        lambda x: x.sum(), [ones(1000)], 4, {"shortest_part": 16, "part_total": 100}
    ),
    "shortest_part": (lambda x: x.sum(), [ones(1000)], 500, {"part_total": 100}),
    "terms_aside": (lambda x, y: jnp.exp(x @ y), [ones(99, 8), ones(8)], 1),
    "one_range": (lambda x: jnp.concatenate([x, x + 1]), [ones(9)], 1),
    "panel_from": (lambda x: x.T * 2, [ones(64, 64)], 0),
    "panel_row": (lambda x: x.T * 2, [ones(64, 64)], 128, {"panel_from": 0}),
    "panel_read": (lambda x: x.T * 2, [ones(64, 64)], 64, {"panel_from": 0}),
    "stream_bytes": (lambda x: x.T * 2, [ones(64, 64)], 0, {"panel_from": 0}),
    "stream_row": (lambda x: x.T * 2, [ones(64, 64)], 128, PAST_CACHES),
    "stream_read": (lambda x: x.T * 2, [ones(64, 64)], 64, PAST_CACHES),
    "few_steps": (
        lambda x: x.transpose(0, 2, 1) * 2, [ones(2, 300, 300)], 0, {"panel_from": 0}
    ),
    "reuse_bytes": (lambda x: (x @ x * 2) @ x, [square], 0, {"small_product": 0}),
    "small_product": (lambda x: x @ x, [square], 0),
    "half_products": (lambda x: x @ x, [jnp.ones((99, 99), "float16")], True),
    "call_cost": (lambda x, y: x @ y, [ones(99, 99)] * 2, 9.0),
    "product_cost": (lambda x, y: x @ y, [ones(99, 99)] * 2, 9.0),
    "kernel_cost": (lambda x, y: (x @ y).T + 1, [ones(99, 99)] * 2, 9e9),
    "copy_cost": (lambda x, y: (x @ y).T + 1, [ones(99, 99)] * 2, 9e9),
    "largest_loop": (long_loop, [ones(9)], 1),
    "lane_block": (decay, [ones(999)], 99, {"worth_lanes": 0}),
    "worth_lanes": (decay, [ones(999)], 0, {"lane_block": 99}),
    "tile_rows": (jnp.dot, [ones(24, 40), ones(40, 24)], 2),
    "tile_work": (jnp.dot, [ones(24, 40), ones(40, 24)], 1 << 30),
    "fewest_lanes": (convolution, [image, wide], 99, {"small_product": 0}),
    "stack_bytes": (long_loop, [ones(9)], 0),
    "between_looks": (decay, [ones(99)], 99),
    "direct_convolutions": (convolution, [image, wide], False, {"small_product": 0}),
}  # fmt: skip


# The same, of kernels for a grid.
on_grids = {
    "few_threads": (lambda x: x.sum(1), [ones(99, 99)], 1),
    "enough_threads": (lambda x: x * 2, [ones(99, 40)], 99),
    "thread_bytes": (nn.softmax, [ones(999, 40)], 0, {"few_threads": 0}),
    "thread_steps": (jnp.cumsum, [ones(99)], 999),
    "total_again": (lambda x: x / x.sum(1, keepdims=True), [ones(99, 8)], 4),
    "block_total": (jnp.sum, [ones(999)], 100),
    "fewest_parts": (lambda x: x.sum(0), [ones(999, 40)], 99,
                     {"enough_threads": 400, "few_threads": 0}),
    "block_step": (long_loop, [ones(999)], 0),
    "most_nodes": (decay, [ones(99)], 0, {"block_step": -1}),
}  # fmt: skip


def ledger(f, args, settings):
    """{(text, whether, numbers): `Decision`} of all that is said of a function."""
    with config.override("fusion", config.fusion.but(**settings)):
        program = rewritten(lower(simplify(jax.make_jaxpr(f)(*args))))
        found = [*program.decisions]
        for step in program.body:
            if isinstance(step, Kernel) and not isinstance(step, Region):
                found += decisions_about(step, arrange)
    return by_text(found)


def ledger_of_grids(f, args, settings):
    """The same, as `explain` says it of a program for a GPU."""
    gpu = jax.fuse(jax.jit(f, backend="cuda"), **settings)
    return by_text(jax.explain(gpu, *args).decisions)


def by_text(found):
    numbers = lambda d: [(k, v) for k, v in d.numbers.items() if np.isscalar(v)]
    return {(str(d), d.fused, *numbers(d)): d for d in found}


# What a program is simplified to: (function, arguments, another value).
simpler = {
    "small_constant": (lambda x: x + jnp.arange(4.0) * 3, [ones(4)], 1),
}  # fmt: skip


def test_each_setting_is_tried():
    tried = cases.keys() | simpler.keys() | on_grids.keys()
    assert {f.name for f in fields(Settings)} == tried


@pytest.mark.parametrize("setting", simpler)
def test_another_value_is_another_simplified_program(setting):
    f, args, value = simpler[setting]
    closed = jax.make_jaxpr(f)(*args)
    with config.override("fusion", config.fusion.but(**{setting: value})):
        other = simplify(closed)
    assert str(other) != str(simplify(closed))


@pytest.mark.parametrize("setting", [*cases, *on_grids])
def test_another_value_is_another_decision_that_names_the_setting(setting):
    f, args, value, *others = (cases | on_grids)[setting]
    others = dict(*others)
    ledger_of = ledger if setting in cases else ledger_of_grids
    before = ledger_of(f, args, others)
    after = ledger_of(f, args, others | {setting: value})
    changed = before.keys() ^ after.keys()
    assert changed
    about = [d for d in (*before.values(), *after.values()) if setting in d.settings]
    changes = [(before | after)[key] for key in changed]
    assert any(d in changes for d in about)
    assert all(d.reason and str(d) for d in about)
