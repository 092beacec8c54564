"""How tests compare: trees of arrays, programs compiled and interpreted; threads."""

import os
import re
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest


def alike(found, wanted, message="", rtol=0.0, atol=0.0, weak=False):
    """Assert that two trees of arrays have the same shapes, dtypes and numbers.

    Integers are equal, floats as close as it says, NaN is NaN.  If `weak`, weak types
    are the same as well.
    """
    from minijit.trace.trees.pytree import tree_leaves

    for a, b in zip(tree_leaves(found), tree_leaves(wanted), strict=True):
        assert not weak or a.weak_type == b.weak_type, message
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), message
        if a.dtype.kind in "iubO" or a.dtype.names:
            np.testing.assert_array_equal(a, b, err_msg=str(message))
            continue
        a, b = (x.astype("c16" if a.dtype.kind == "c" else "f8") for x in (a, b))
        np.testing.assert_allclose(a, b, rtol, atol, err_msg=str(message))


def same_bits(found, wanted):
    """Whether arrays have the same types and bits; all NaNs are one."""
    a, b = np.asarray(found), np.asarray(wanted)
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    if a.dtype.kind in "fc":
        nan = np.isnan(a) & np.isnan(b)
        a, b = np.where(nan, 0, a), np.where(nan, 0, b)
    return a.tobytes() == b.tobytes()


def refused(kind, words, function, *args, **named):
    """Assert that a call raises an error of that kind, in which these words stand.

    They must stand in what the error says.  An error of the library also quotes the
    user's line, and that is the test's own, with the words in it.

    Args:
      words: texts, or one pattern.
    """
    with pytest.raises(kind) as error:
        function(*args, **named)
    told = re.sub(r"(\n  at .*)\n      .*", r"\1", str(error.value))
    if isinstance(words, str):
        assert re.search(words, told), f"{words!r} does not match: {told}"
        return
    for word in words:
        assert word in told, f"{word!r} is not in: {told}"


def as_interpreted(f, *args, backend="plain", rtol=1e-5, atol=None):
    """Assert that a function compiled gives what it gives interpreted."""
    import minijit as mj

    found, wanted = (mj.jit(f, backend=b)(*args) for b in (backend, "eval"))
    alike(found, wanted, rtol=rtol, atol=rtol if atol is None else atol)


def program_of(f, *args):
    """The loops of a function, lowered from its simplified jaxpr."""
    import minijit as mj
    from minijit.compile.lower.walk import lower
    from minijit.compile.simplify.folding import simplify

    return lower(simplify(mj.make_jaxpr(f)(*args)))


def fusing(**changes):
    """A block in which these settings of fusion are others."""
    from minijit import config

    return config.override("fusion", config.fusion.but(**changes))


def check_slopes(function, at, rtol=1e-4):
    """Assert that the slopes of a function of arrays at a place are its values'.

    Forward mode against a difference quotient, reverse mode against forward mode.

    Args:
      function: to a list of arrays.
    """
    import minijit as mj

    way = [np.cos(np.arange(x.size) + 1).reshape(x.shape).astype(x.dtype) for x in at]
    moved = lambda h: function(*(x + h * w for x, w in zip(at, way, strict=True)))
    values, slopes = mj.jvp(function, tuple(at), tuple(way))
    step = 1e-6
    rows = zip(values, slopes, moved(step), moved(-step), strict=True)
    for value, slope, up, down in (map(np.asarray, row) for row in rows):
        finite = np.isfinite(value) & np.isfinite(slope)
        want, slope = (up[finite] - down[finite]) / (2 * step), slope[finite]
        scale = max(1, np.abs(slope).max(initial=0))
        np.testing.assert_allclose(slope, want, rtol, 1e-5 * scale)
    if all(x.dtype.kind == "f" for x in (*values, *at)):
        whole, back = mj.vjp(function, *at)
        cts = [np.where(np.isfinite(y), np.cos(np.arange(y.size)).reshape(y.shape), 0.0)
               for y in whole]  # fmt: skip
        dot = lambda xs, ys: sum((x * y).sum() for x, y in zip(xs, ys, strict=True))
        got, want = dot(back(cts), way), dot(slopes, cts)
        np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)


def in_threads(*functions):
    """Call functions at the same time: -> their results, or what one of them raised."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [f.result() for f in [pool.submit(function) for function in functions]]


def in_a_child(is_right):
    """Assert that a function says yes in a forked process."""
    child = os.fork()
    if not child:
        os._exit(0 if is_right() else 1)
    assert os.waitpid(child, 0)[1] == 0


def in_a_process(program, **environment):
    """What a program prints, run in a process of its own that may not die or hang."""
    told = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(program)],
        env=os.environ | told, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-3000:]
    return done.stdout


def profiled(function, *args):
    """What a call gives, and the events that a profiler sees on its way."""
    events, before = [], sys.getprofile()
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        return function(*args), events
    finally:
        sys.setprofile(before)


def count(jaxpr, name):
    """How many equations of a name a jaxpr has, in inner jaxprs too."""
    from minijit.trace.jaxprs.jaxpr import subjaxprs

    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    own = sum(eqn.primitive.name == name for eqn in jaxpr.eqns)
    return own + sum(count(sub, name) for eqn in jaxpr.eqns for sub in subjaxprs(eqn))
