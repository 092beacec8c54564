"""Values, primitives and traces: how one Python function gets many meanings.

A *primitive* is an operation minijit knows by name: `sin`, `add`, `transpose`.
Calling `bind` on one does not compute anything by itself: it asks the current
*trace* what the call means here.  The bottom trace evaluates; others record,
differentiate or vectorise, and hand what is left to their parent.

    double_p = Primitive("double")
    eval_rules[double_p] = lambda x: x + x
    double_p.bind(3.0)                     # 6.0: the bottom trace evaluates
    with set_trace(some_trace):
        double_p.bind(3.0)                 # whatever `some_trace` makes of it

What a primitive means under each trace stands in tables, one row a primitive.
`eval_rules` is the first of them.
"""

import threading
from contextlib import contextmanager

from .base.errors import (
    ambiguous_truth, conversion_error, frame_of_block, is_running, leaked_tracer,
)

operators = {}


def forwarding(name):
    """A method that looks its meaning up in `operators` when it is called."""

    def method(self, *args, **kwargs):
        if name not in operators:
            raise TypeError(f"{name} is not defined on arrays yet")
        return operators[name](self, *args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


class Array:
    """What a user holds: a concrete array, or a tracer standing in for one.

    Both have an abstract value `aval` (shape, dtype, weak type).  Operators and
    methods are looked up by name in the table `operators`, so that a later module
    can say what `x + y` means without this class being opened again.
    """

    __slots__ = ()
    # NumPy must not try to add its own array to ours element by element.
    __array_priority__ = 100

    @property
    def shape(self):
        return self.aval.shape

    @property
    def dtype(self):
        return self.aval.dtype

    @property
    def weak_type(self):
        return self.aval.weak_type

    @property
    def ndim(self):
        return len(self.aval.shape)

    @property
    def size(self):
        return self.aval.size

    def __len__(self):
        if not self.aval.shape:
            raise TypeError("len() of unsized object: the array has no axes")
        return self.aval.shape[0]

    # Equality is elementwise, so two arrays cannot be compared as keys of a dict.
    __hash__ = None

    def __getattr__(self, name):
        rule = operators.get(name)
        if rule is None or name.startswith("__"):
            kind = type(self).__name__
            raise AttributeError(f"{kind!r} object has no attribute {name!r}")
        return rule.__get__(self)

    def __dir__(self):
        return sorted({*object.__dir__(self), *operators})


forwarded_names = """
    __add__ __radd__ __sub__ __rsub__ __mul__ __rmul__ __truediv__ __rtruediv__
    __floordiv__ __rfloordiv__ __mod__ __rmod__ __divmod__ __rdivmod__
    __pow__ __rpow__ __matmul__ __rmatmul__
    __and__ __rand__ __or__ __ror__ __xor__ __rxor__
    __lshift__ __rlshift__ __rshift__ __rrshift__
    __eq__ __ne__ __lt__ __le__ __gt__ __ge__
    __neg__ __pos__ __abs__ __invert__ __round__
    __getitem__ __setitem__ __iter__ __reversed__ __contains__
""".split()

for name in forwarded_names:
    setattr(Array, name, forwarding(name))


class Conversions(Array):
    """What Python and NumPy ask of an array without numbers: all ends in `concrete`."""

    __slots__ = ()

    def __bool__(self):
        if getattr(self.aval, "size", 1) != 1:
            raise ambiguous_truth(self)
        return bool(self.concrete("bool"))

    def __int__(self):
        return int(self.concrete("int"))

    def __float__(self):
        return float(self.concrete("float"))

    def __complex__(self):
        return complex(self.concrete("complex"))

    def __index__(self):
        return self.concrete("index").__index__()

    def __format__(self, spec):
        return format(self.concrete("format"), spec) if spec else str(self)

    def item(self, *args):
        """The value as a Python scalar."""
        return self.concrete("item").item(*args)

    def tolist(self):
        """The value as nested Python lists."""
        return self.concrete("tolist").tolist()

    def __array__(self, dtype=None, copy=None):
        return self.concrete("numpy").__array__(dtype, copy=copy)


# chapter 2
eval_rules = {}


class Primitive:
    """An operation known by name; tables say what it means.

    Args:
      name: how it prints in a jaxpr.
      multiple_results: whether `bind` returns a list of results or just one.
    """

    def __init__(self, name, multiple_results=False):
        self.name = name
        self.multiple_results = multiple_results

    def __repr__(self):
        return self.name

    def bind(self, *args, **params):
        """Apply the primitive to `args` under the current trace."""
        results = current.trace.process(self, args, params)
        if self.multiple_results:
            return results
        result, = results
        return result


class Trace:
    """A meaning for primitives.  `parent` is the trace its own work runs in."""

    parent = None

    def process(self, primitive, args, params):
        """Apply `primitive`: -> list of results."""
        raise NotImplementedError(f"{type(self).__name__} has no process method")


class EvalTrace(Trace):
    """Compute now, by the eval rule."""

    def process(self, primitive, args, params):
        rule = find_rule(eval_rules, primitive, "eval")
        results = rule(*args, **params)
        return results if primitive.multiple_results else [results]


class CurrentTrace(threading.local):
    """The trace that `bind` asks: one for each Python thread."""

    trace = EvalTrace()


current = CurrentTrace()


@contextmanager
def set_trace(trace):
    """Let `trace` give primitives their meaning inside a `with` block."""
    before, current.trace = current.trace, trace
    try:
        yield trace
    finally:
        current.trace = before


def current_trace():
    """The trace that gives primitives their meaning right now, in this thread."""
    return current.trace


def find_rule(table, primitive, kind):
    """The row of `primitive` in a rule table.

    Without one, a NotImplementedError: "primitive 'sin' has no eval rule: add a row
    for it to the eval table", with the quotes, where `kind` is eval.
    """
    rule = table.get(primitive)
    if rule is None:
        raise NotImplementedError(
            f"primitive {primitive.name!r} has no {kind} rule: add a row for it to "
            f"the {kind} table"
        )
    return rule


class Tracer(Conversions):
    """A stand-in for a value, made by a trace.

    Attributes:
      owner: the trace that made it and gives primitives applied to it a meaning.
      aval: what is known of the value: `ShapedArray(shape, dtype, weak_type)`.
    """

    __slots__ = ("owner", "aval", "__weakref__")

    def __init__(self, trace, aval):
        self.owner = trace
        self.aval = aval

    def __repr__(self):
        return f"{type(self).__name__}({self.aval})"

    def concrete(self, use):
        """The value behind the tracer for Python's `use`; raises if there is none.

        A tracer that knows its value (in `grad` outside `jit`, say) overrides this.
        """
        raise conversion_error(self, use)

    def origin(self):
        """Which function is being traced, and which arguments the value needs."""
        return ""



def check_for_leaks(primitive, args):
    """Only values may come to the bottom trace: a tracer there has outlived its own."""
    for arg in args:
        if isinstance(arg, Tracer):
            raise leaked_tracer(primitive, arg)


# chapter 2, brought along

# Functions of (primitive, args, params): the results of an operation that was done
# before with such arguments, or None.
prepared: list = []
# Functions of (primitive, args, params): the results where these arguments are not
# NumPy's, or None.
elsewhere: list = []
# What looks at the results: check(primitive, args, params, results).
result_checks = []


class BottomTrace(EvalTrace):
    """The bottom of every stack of traces, where other modules look and step in.

    Attributes:
      steps: how many primitives were evaluated; threads may lose some.
      prepared: what is asked for the results first.
    """

    steps, prepared = 0, prepared

    def process(self, primitive, args, params):
        self.steps += 1
        for known in self.prepared:
            results = known(primitive, args, params)
            if results is not None:
                return results
        check_for_leaks(primitive, args)
        for other in elsewhere:
            results = other(primitive, args, params)
            if results is not None:
                break
        else:
            results = super().process(primitive, args, params)
        for check in result_checks:
            check(primitive, args, params, results)
        return results


# Where each thread begins.
current.trace = CurrentTrace.trace = BottomTrace()


# chapter 3, brought along


class LiveTrace(threading.local):
    """The trace that `bind` asks: the bottom, once the frame that set another is gone.

    A `with` block ends by a call, and Ctrl-C can come as that begins: then nobody sets
    back what the block had set.

    Attributes:
      trace: at the bottom an attribute like any other; elsewhere it is looked for.
      now, frame: the trace, and the frame whose `with` block set it.
    """

    bottom = BottomTrace()

    def __init__(self):
        self.enter(self.bottom, None)

    def enter(self, trace, frame):
        self.now, self.frame = trace, frame
        if frame is None:
            self.trace = trace
        else:
            vars(self).pop("trace", None)

    def __getattr__(self, name):
        if name != "trace":
            raise AttributeError(name)
        if not is_running(self.frame):
            self.enter(self.bottom, None)
        return self.now


class SetTrace:
    """As `set_trace`, and it is known which frame the `with` block stands in."""

    __slots__ = "trace", "before"

    def __init__(self, trace):
        self.trace = trace

    def __enter__(self):
        self.before = current.now, current.frame
        current.enter(self.trace, frame_of_block())
        return self.trace

    def __exit__(self, *error):
        current.enter(*self.before)


current = LiveTrace()  # type: ignore[assignment]
set_trace = SetTrace  # type: ignore  # noqa: F811

# Values do not change, but they may be donated, which is to leave a copy alone.
copied = lambda x, memo=None: operators.get("copy", lambda x: x)(x)
Array.__copy__ = Array.__deepcopy__ = copied  # type: ignore[attr-defined]
