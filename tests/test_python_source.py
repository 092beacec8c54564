"""The printer: what stands in the generated source, and that it runs as it is."""

import re

import numpy as np
import pytest

import minijit.numpy as jnp
from minijit import make_jaxpr
from minijit.compile.loops.buffers import Buffer
from minijit.compile.loops.expressions import Axis, Const, Load, Op
from minijit.compile.loops.statements import For, Kernel, Program, Store
from minijit.compile.lower.walk import lower
from minijit.run.executable import compile_plain
from minijit.run.python.emitter import operations
from minijit.run.python.source import print_program
from minijit.run.python.source_text import Constants, Text

pytestmark = pytest.mark.chapter(16)

f32 = np.dtype("float32")


def source_of(f, *args):
    """The source printed for a function."""
    return print_program(lower(make_jaxpr(f)(*args), "f"))


def code_of(f, *args):
    """The same without its comments and imports."""
    text = source_of(f, *args).text.partition("import numpy as np\n")[2]
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return "\n".join(lines) + "\n"


def test_only_floats_are_added_in_any_order():
    for dtype, count in (("float32", 1), ("int32", 0)):
        text = code_of(lambda x: x.sum(1), jnp.ones((3, 4), dtype))
        assert text.count("add_any_order(") == count


def test_golden_elementwise():
    x, y = np.ones((3, 4), "f4"), np.ones(4, "f4")
    assert code_of(lambda x, y: jnp.sin(x) * y + 0.5, x, y) == """\
f32_0_5 = np.float32(0.5)
def kernel_0(x0: float32[3, 4], x1: float32[4], y0: float32[3, 4]):
    for i0 in range(3):
        for i1 in range(4):
            y0[i0, i1] = np.sin(x0[i0, i1]) * x1[i1] + f32_0_5
def run_f(in0, in1):
    out0 = np.empty((3, 4), np.float32)
    kernel_0(in0, in1, out0)
    return (out0,)
"""


def test_golden_integers_have_variables_of_their_own():
    x = np.ones(3, "u1")
    assert code_of(lambda x: x * x + x, x) == """\
def kernel_0(x0: uint8[3], y0: uint8[3]):
    for i0 in range(3):
        v0: uint8 = x0[i0]
        v1: uint8 = v0 * v0
        v2: uint8 = v1 + v0
        y0[i0] = v2
def run_f(in0):
    out0 = np.empty((3,), np.uint8)
    kernel_0(in0, out0)
    return (out0,)
"""


def test_golden_total():
    x = np.ones((3, 4), "f4")
    assert code_of(lambda x: jnp.sum(x, axis=1) * 2, x) == """\
from minijit.run.scalars.scalar_math import add_any_order
f32_0 = np.float32(0.0)
f32_2 = np.float32(2.0)
def kernel_0(x0: float32[3, 4], y0: float32[3]):
    for i0 in range(3):
        r0: float32 = f32_0
        for k0 in range(4):
            r0 = add_any_order(r0, x0[i0, k0])
        y0[i0] = r0 * f32_2
def run_f(in0):
    out0 = np.empty((3,), np.float32)
    kernel_0(in0, out0)
    return (out0,)
"""


def test_source_names_the_users_line():
    def f(x):
        return jnp.cos(x) + 1  # the line to look for

    source = source_of(f, np.ones(3, "f4"))
    kernel, = source.kernels
    assert "# the line to look for" in kernel.comment
    assert re.search(r"test_python_source.py:\d+ \(f\): return jnp.cos", kernel.comment)
    assert kernel.comment in source.text
    assert "cos, add" in kernel.comment


@pytest.mark.parametrize("dtype, value, name, definition", [
    ("float32", 0.1, "f32_0_1", "np.float32(0.1)"),
    ("float32", -0.0, "f32_m0", "np.float32(-0.0)"),
    ("float32", -np.inf, "f32_minf", "np.float32(-np.inf)"),
    ("float64", 1e-5, "f64_1em05", "np.float64(1e-05)"),
    ("float64", np.nan, "f64_nan", "np.float64(np.nan)"),
    ("uint32", 2**32 - 1, "u32_4294967295", "np.uint32(4294967295)"),
    ("int8", -128, "i8_m128", "np.int8(-128)"),
    ("int64", 2**40, "i64_1099511627776", "np.int64(1099511627776)"),
    ("float16", 0.5, "f32_0_5", "np.float32(0.5)"),
])  # fmt: skip
def test_constants_are_typed_and_keep_their_value(dtype, value, name, definition):
    constants = Constants()
    constant = Const(value, dtype)
    assert constants.name(constant) == name
    assert constants.definitions == {name: definition}
    found = eval(definition, {"np": np})
    wanted = np.dtype(dtype).type(value)
    assert np.signbit(found) == np.signbit(wanted)
    assert np.array_equal(found, wanted.astype(found.dtype), equal_nan=True)


@pytest.mark.parametrize(
    "text", ["(a + b) * c", "a - (b - c)", "a - b - c", "-(a + b)", "a * -b"]
)
def test_parentheses_stand_where_they_are_needed(text):
    import ast

    names = {n: Const(v, f32) for n, v in {"a": 1.5, "b": -2.25, "c": 4.0}.items()}
    tables = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.USub: "neg"}

    def build(node):
        if isinstance(node, ast.Name):
            return Text(node.id)
        unary = isinstance(node, ast.UnaryOp)
        parts = [node.operand] if unary else [node.left, node.right]
        row = operations[tables[type(node.op)]]
        return row(Op("add", (names["a"], names["b"]), f32), *map(build, parts))

    assert build(ast.parse(text, mode="eval").body).text == text


def test_every_operation_of_the_ir_has_a_row():
    """What the lowering can produce, the printer can print."""
    import inspect

    from minijit.compile.loops import index_rules, statements as loops
    from minijit.compile.lower import (
        choices as lower_choices, elements as lower_elements,
    )

    modules = index_rules, loops, lower_choices, lower_elements
    text = "".join(map(inspect.getsource, modules))
    names = set(re.findall(r"\b(?:op|compute|one_operation)\(\"(\w+)\"", text))
    assert len(names) > 8
    assert names - {"item"} <= set(operations)


def test_source_runs_as_plain_python():
    def f(x):
        return x * 2, jnp.sum(x), jnp.argmax(x), (x / 2).astype("int32")

    source = source_of(f, np.ones((2, 3), "f4"))
    assert all(kernel.text.endswith("\n") for kernel in source.kernels)
    namespace = {}
    exec(source.text, namespace)
    x = np.arange(6, dtype="f4").reshape(2, 3)
    doubled, total, largest, halves = namespace[source.driver](x)
    assert np.array_equal(doubled, 2 * x) and total == 15 and largest == 5
    assert halves.tolist() == [[0, 0, 1], [1, 2, 2]]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_one_of_the_halves_given_is_not_rounded(dtype):
    x = jnp.asarray([1.0, -2.0, 0.1], dtype)
    f = lambda x: jnp.maximum(abs(x), -x)
    assert "round_" not in source_of(f, x).text.split("def kernel_0")[1]
    assert "round_" in source_of(lambda x: f(x) * 3, x).text


def test_a_kernel_makes_the_buffers_of_its_own():
    x, y = Buffer("x", (4,), f32), Buffer("y", (4,), f32)
    i, own = Axis(4), Buffer("t", (4,), f32, space="cache")
    body = (Store(own, (i,), Load(x, (i,))), Store(y, (i,), Load(own, (i,))))
    kernel = Kernel("k0", (For(i, body),))
    source = print_program(Program("f", (x,), (y,), (), (), (kernel,)))
    namespace = {}
    exec(source.text, namespace)
    assert namespace["run_f"](np.arange(4, dtype="f4"))[0].tolist() == [0, 1, 2, 3]


def test_a_name_given_in_one_loop_is_not_used_in_another():
    """The divisor's loop and the sum's both load an element of the mask."""
    x, mask = np.arange(6, dtype="f4").reshape(2, 3), np.array([[False, True, True]])
    f = lambda x, mask: jnp.mean(x, axis=1, where=mask)
    run = compile_plain(make_jaxpr(f)(x, mask), "f")
    assert run.source.count("= x0[0, k") == 2
    assert run(x, mask)[0].tolist() == [1.5, 4.5]
