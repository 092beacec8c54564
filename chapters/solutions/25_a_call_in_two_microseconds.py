"""Solutions to chapter 25."""

from collections import OrderedDict


import minijit as mj
import minijit.numpy as jnp
from minijit.run.calls.dispatch import container_rows
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
