"""Solutions to chapter 25."""

import math
from collections import OrderedDict

import numpy as np

import minijit as mj
import minijit.numpy as jnp
from minijit.run.calls.dispatch import container_rows
from minijit.run.pool import Pool
from minijit.trace.jit.stores import missed


def goes_long(f, *args):
    return all(call(args, {}) is missed for call in f.shortcuts.calls)


def check_goes_long(goes_long):
    """Each of `f.shortcuts.calls` takes (args, kwargs) and may return `missed`."""
    f, x = mj.jit(lambda x: x + 1), jnp.zeros(3)
    assert goes_long(f, x)
    for _ in range(3):
        f(x)
    assert not goes_long(f, x)
    assert goes_long(f, jnp.zeros(4)) and goes_long(f, [x]) and goes_long(f, x, x)
    for _ in range(8):
        f(jnp.zeros(4))
    assert not goes_long(f, jnp.zeros(4)) and not goes_long(f, x)


def take_as(pool, shape, dtype):
    nbytes = np.dtype(dtype).itemsize * math.prod(shape)
    if nbytes != pool.nbytes:
        raise ValueError(f"an array of {pool.nbytes} bytes cannot have {nbytes}")
    return pool.take().view(dtype).reshape(shape)


def check_take_as(take_as):
    """A view of the right dtype and shape refers to the array it was made from."""
    pool = Pool((6,), np.dtype("float32"))
    address = lambda array: array.__array_interface__["data"][0]
    first = take_as(pool, (2, 3), "int32")
    assert first.shape == (2, 3) and first.dtype == np.int32
    assert address(first) in [address(place[0]) for place in pool.lent]
    where = address(first)
    assert where not in [address(pool.take()) for _ in range(9)]
    del first
    again = [take_as(pool, (3,), "float64") for _ in range(8)]
    assert where in map(address, again)
    try:
        take_as(pool, (7,), "float32")
    except ValueError:
        return
    raise AssertionError("7 numbers do not fit into the memory of 6")


def in_ordered(printer, name, node):
    kind = printer.constant("kind", OrderedDict)
    keys = printer.constant("keys", node.data)
    printer.unless(f"type({name}) is not {kind} or tuple({name}) != {keys}")
    children = [printer.fresh() for _ in range(node.arity)]
    if children:
        printer.tests.append(f"{', '.join(children)}, = {name}.values()")
    return children


def check_in_ordered(in_ordered):
    """Test the class and the keys in order; then the children are `name.values()`."""
    container_rows[OrderedDict] = in_ordered
    try:
        f, x = mj.jit(lambda d: d["a"] * d["b"]), jnp.ones(3)
        for _ in range(3):
            f(OrderedDict(a=x, b=2 * x))
        (call,) = f.shortcuts.calls
        assert "flatten" not in call.text, "it should not call the flatten function"
        assert call((OrderedDict(a=x, b=x),), {}).tolist() == [1, 1, 1]
        for other in (OrderedDict(b=x, a=x), OrderedDict(a=x), {"a": x, "b": x}):
            assert call((other,), {}) is missed
        g = mj.jit(lambda d: x)
        for _ in range(3):
            g(OrderedDict())
        assert len(g.shortcuts.calls) == 1
    finally:
        del container_rows[OrderedDict]
