"""jax as the referee of many functions at once.

    want = together({"sin": (jax.numpy.sin, x), "gelu": (jax.nn.gelu, x)})
    want["sin"]
    want = kept(source_of(table, ask), lambda: ask(jax, table))

XLA takes longer for fifty small programs than for one of fifty parts, and its optimizer
longer than such programs run.  Most of the time it takes all the same; so its answers
are stored, each under the text of its program, what this was given, and jax's version.
Where tracing takes long as well, they are stored under the text of what is asked.
What is not stored is computed: that loses time only.  What is kept under a text judges
without jax, too.  Store all of them anew by

    python -m tests.referee
"""

import functools
import gzip
import hashlib
import importlib.metadata
import importlib.util
import inspect
import itertools
import pickle
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
HERE = Path(__file__).parent
STORED = HERE / "golden" / "jax_answers.gz"
VERSION = "0.10.2"  # Of the jax that the stored answers are of.
fresh = {}  # What was asked in this process, as in the file.


def together(calls):
    """{name: (function, *arguments)} -> {name: what jax says}: one compiled program."""
    import jax

    functions = {name: function for name, (function, *_) in calls.items()}

    def program(arguments):
        return {name: functions[name](*args) for name, args in arguments.items()}

    arguments = {name: args for name, (_, *args) in calls.items()}
    traced = jax.jit(program, compiler_options=quick).trace(arguments)
    lowered = traced.lower()
    text = hashlib.sha256(f"{jax.__version__}\n{lowered.as_text()}".encode())
    for x in jax.tree.leaves(arguments):
        of_key = jax.dtypes.issubdtype(getattr(x, "dtype", int), jax.dtypes.prng_key)
        text.update(np.asarray(jax.random.key_data(x) if of_key else x).tobytes())
    key, avals = text.hexdigest()[:24], traced.jaxpr.out_avals
    plain = lambda a: not jax.dtypes.issubdtype(a.dtype, jax.dtypes.extended)
    storable = all(plain(aval) and aval.dtype.itemsize for aval in avals)
    if storable and key in stored():
        data = stored()[key]
        ends = [0, *itertools.accumulate(a.size * a.dtype.itemsize for a in avals)]
        parts = (data[i:j] for i, j in itertools.pairwise(ends))
        leaves = [array(part, a) for part, a in zip(parts, avals, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(lowered.out_info), leaves)
    answers = lowered.compile()(arguments)
    if storable:
        parts = [np.asarray(x).tobytes() for x in jax.tree.leaves(answers)]
        fresh[key] = b"".join(parts)
    return answers


@dataclass
class Said:
    """An array as jax has it, without jax."""

    array: np.ndarray
    weak_type: bool
    dtype = property(lambda self: self.array.dtype)
    shape = property(lambda self: self.array.shape)

    def __array__(self, dtype=None, copy=None):
        return self.array


def said(x):
    """A leaf of a result as it is stored: an array, or a type of Python's."""
    of_jax = hasattr(x, "weak_type")
    return Said(np.asarray(x), bool(x.weak_type)) if of_jax else type(x).__name__


def kept(text, ask):
    """What `ask()` gives, or gave for the same text, which says all that is asked."""
    installed = importlib.util.find_spec("jax")
    version = importlib.metadata.version("jax") if installed else VERSION
    key = hashlib.sha256(f"{version}\n{text}".encode()).hexdigest()[:24]
    if key in stored():
        return pickle.loads(stored()[key])
    if not installed:
        pytest.skip("compares with jax, which is not installed")
    fresh[key] = pickle.dumps(answer := ask())
    return answer


def source_of(*things):
    """The text of modules and functions."""
    return "".join(map(inspect.getsource, things))


@functools.cache
def stored():
    """{program: the bytes of its results}."""
    return pickle.loads(gzip.decompress(STORED.read_bytes())) if STORED.exists() else {}


def array(data, aval):
    """An array of jax's with these bytes, of a weak type where the result had one."""
    from jax import numpy as jnp
    from jax._src.array import ArrayImpl

    made = jnp.asarray(np.frombuffer(data, aval.dtype).reshape(aval.shape))
    return ArrayImpl(aval, made.sharding, made._arrays, committed=False)


if __name__ == "__main__":
    import referee  # As the tests import it.

    STORED.unlink(missing_ok=True)
    asking = [p for p in HERE.glob("test_*.py") if "from referee" in p.read_text()]
    if not pytest.main(["-q", *sorted(map(str, asking))]):
        STORED.write_bytes(gzip.compress(pickle.dumps(referee.fresh), mtime=0))
