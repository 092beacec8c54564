"""A small JAX, built in an evening: it traces, differentiates, batches, compiles.
Numbers are float64, trees are nested tuples, axes count from the back: -1 is last."""
import warnings
from functools import partial, reduce
from textwrap import indent

import numpy as np

# ---- 1. An operation is a name.  What a call of it means, the current trace says.

class Primitive(str):
    def __call__(self, *args, **params): return traces[-1].process(self, args, params)

add, mul, sin, cos, tanh = map(Primitive, ["add", "mul", "sin", "cos", "tanh"])
reduce_sum, broadcast = map(Primitive, ["reduce_sum", "broadcast"])

eval_rules = {
    add: np.add, mul: np.multiply, sin: np.sin, cos: np.cos, tanh: np.tanh,
    reduce_sum: np.sum,
    broadcast: lambda x, axis, size: np.repeat(np.expand_dims(x, axis), size, axis)}

class Trace:
    """A meaning for all primitives, inside `with trace:`.  This one computes."""
    def __init__(self, **kept): vars(self).update(kept)
    def __enter__(self): traces.append(self)
    def __exit__(self, *error): traces.pop()
    def owns(self, x): return isinstance(x, Tracer) and x.trace is self
    def process(self, primitive, args, params):
        return eval_rules[primitive](*args, **params)

traces = [Trace()]  # the last one is current

class Tracer:
    """Stands for a value.  The trace that made it keeps in it what it needs to know."""
    __array_ufunc__ = None  # NumPy leaves `array * tracer` to us
    def __init__(self, trace, shape, **kept):
        vars(self).update(kept, trace=trace, shape=shape)
    def __repr__(self): return getattr(self, "name", f"<{type(self.trace).__name__}>")
    def __bool__(self): raise TypeError("a tracer has no value that could decide an if")
    __add__ = __radd__ = lambda x, y: add(*fit(x, y))
    __mul__ = __rmul__ = lambda x, y: mul(*fit(x, y))
    __neg__ = lambda x: x * -1.0
    __sub__ = lambda x, y: x + -y
    __rsub__ = lambda x, y: -x + y
    __matmul__ = lambda x, y: dot(x, y)
    __rmatmul__ = lambda x, y: dot(y, x)

def is_number(x): return np.shape(x) == () and not isinstance(x, Tracer)

def fit(x, y):  # both operands; one with fewer axes is repeated along those in front
    a, b = np.shape(x), np.shape(y)
    if a == b or is_number(x) or is_number(y): return x, y
    if len(a) > len(b): return fit(y, x)[::-1]
    if a != b[len(b) - len(a):]: raise ValueError(f"shapes {a} and {b} do not fit")
    return fit(broadcast(x, axis=-len(a) - 1, size=b[-len(a) - 1]), y)

def dot(x, y):  # a matrix, or a vector, times a vector
    if len(np.shape(y)) != 1: raise ValueError("the right factor must be a vector")
    return reduce_sum(mul(*fit(x, y)), axis=-1)

def sum(x): return sum(reduce_sum(x, axis=-1)) if np.shape(x) else x

# ---- 2. Derivatives: a rule gives a value, and how it moves when the arguments move.

def times(c): return lambda t: mul(t, c)

# primitive -> rule(*primals) -> the result; and for each argument a linear map, from
# the argument's tangent to the result's, which holds on to what it needs.
linearize_rules = {
    add: lambda x, y: (add(x, y), [lambda t: t, lambda t: t]),
    mul: lambda x, y: (mul(x, y), [times(y), times(x)]),
    sin: lambda x: (sin(x), [times(cos(x))]),
    cos: lambda x: (cos(x), [times(-1.0 * sin(x))]),
    tanh: lambda x: (y := tanh(x), [times(1.0 - y * y)]),
    reduce_sum: lambda x, **at: (reduce_sum(x, **at), [partial(reduce_sum, **at)]),
    broadcast: lambda x, **at: (broadcast(x, **at), [partial(broadcast, **at)])}

class JVPTrace(Trace):
    """A value is a primal and a tangent; each is computed in a trace of its own."""
    def primal(self, x): return x.primal if self.owns(x) else x
    def tangent(self, x): return x.tangent if self.owns(x) else np.zeros(np.shape(x))
    def process(self, primitive, args, params):
        with self.parent:
            primal, maps = linearize_rules[primitive](*map(self.primal, args), **params)
        with self.tangent_trace:
            moves = [move(x.tangent) for move, x in zip(maps, args) if self.owns(x)]
            if not moves: return primal
            tangent = reduce(add, moves)
        return Tracer(self, np.shape(primal), primal=primal, tangent=tangent)

def tree_map(f, tree, *rest):  # `f` of each leaf, and of the leaves in its place
    if not isinstance(tree, tuple): return f(tree, *rest)
    return tuple(tree_map(f, *branches) for branches in zip(tree, *rest))

def leaves(tree):
    if not isinstance(tree, tuple): return [tree]
    return [leaf for branch in tree for leaf in leaves(branch)]

def jvp(f, primals, tangents, tangent_trace=None):
    """f(*primals), and how it moves when the primals move by the tangents."""
    trace = JVPTrace(parent=traces[-1], tangent_trace=tangent_trace or traces[-1])
    def pair(x, t): return Tracer(trace, np.shape(x), primal=x, tangent=t)
    with trace: out = f(*tree_map(pair, primals, tangents))
    return tree_map(trace.primal, out), tree_map(trace.tangent, out)

# ---- 3. A program is data.

def drop(items, axis): return items[:axis] + items[axis:][1:]
def insert(items, axis, size):
    return (*items[:len(items) + axis + 1], size, *items[len(items) + axis + 1:])
shape_rules = {reduce_sum: drop, broadcast: insert}  # the others are elementwise

class Jaxpr(Trace):
    """A program.  As a trace it writes itself down; its tracers are its variables."""
    def __init__(self, args):
        letters = "abcdefghopqrstuvwxyz"  # i to n will be indices, as in Fortran
        self.names = (f"{letter}{n or ''}" for n in range(10**6) for letter in letters)
        self.eqns, self.consts, self.known = [], {}, {}
        self.invars = tree_map(lambda x: self.var(np.shape(x)), args)
    def var(self, shape): return Tracer(self, shape, name=next(self.names))
    def lift(self, x):  # what stands for `x` in the program: a number or a variable
        if is_number(x): return float(x)
        if self.owns(x): return x
        if id(x) not in self.known:
            self.known[id(x)] = var = self.var(np.shape(x))
            self.consts[var] = x
        return self.known[id(x)]
    def process(self, primitive, args, params):
        inputs = [self.lift(x) for x in args]
        shapes = {x.shape for x in inputs if isinstance(x, Tracer)} or {()}
        if len(shapes) > 1: raise ValueError(f"{primitive} of shapes {sorted(shapes)}")
        out = self.var(shape_rules.get(primitive, lambda s: s)(*shapes, **params))
        self.eqns.append((primitive, inputs, params, out))
        return out
    def record(self, f, *args):  # run `f` in this trace: it returns the results
        with self: self.outs = tree_map(self.lift, f(*args))
        return self
    def __repr__(self):
        def typed(xs): return " ".join(f"{x}:f64{[*x.shape]}" for x in xs)
        text = f"{{ lambda {typed(self.consts)}; {typed(leaves(self.invars))}. let\n"
        for primitive, inputs, params, out in self.eqns:
            inputs = [round(x, 4) if is_number(x) else x for x in inputs]
            call = primitive + "".join(f"[{name}={x}]" for name, x in params.items())
            text += f"    {typed([out])} = {call} {' '.join(map(str, inputs))}\n"
        return text + f"  in {self.outs} }}"
    def __call__(self, *args):  # run the program, under whatever trace is current
        values = dict(self.consts)
        def read(x): return values.get(x, x)
        tree_map(values.__setitem__, self.invars, args)
        for primitive, inputs, params, out in self.eqns:
            values[out] = primitive(*map(read, inputs), **params)
        return tree_map(read, self.outs)

def make_jaxpr(f):
    """A function of the same arguments that gives the program of `f`."""
    def traced(*args): return (program := Jaxpr(args)).record(f, *program.invars)
    return traced

# ---- 4. Backwards: write the derivative down, and read it from its end.

def linearize(f, *primals):
    """f(*primals), and the program that takes tangents of them to the result's."""
    jaxpr = Jaxpr(primals)
    out, tangents = jvp(f, primals, jaxpr.invars, tangent_trace=jaxpr)
    return out, jaxpr.record(lambda: tangents)

# primitive -> rule(ct, *inputs) -> cotangents of the linear inputs, which come first.
transpose_rules = {
    add: lambda ct, s, t: [ct, ct],
    mul: lambda ct, t, c: [mul(ct, c)],
    reduce_sum: lambda ct, t, axis: [broadcast(ct, axis=axis, size=t.shape[axis])],
    broadcast: lambda ct, t, axis, size: [reduce_sum(ct, axis=axis)]}

def transpose(jaxpr, cotangents):
    """Run a linear program backwards: how much does each variable count?"""
    sums = {}
    def give(x, ct): sums[x] = add(sums[x], ct) if x in sums else ct
    tree_map(give, jaxpr.outs, cotangents)
    for primitive, inputs, params, out in reversed(jaxpr.eqns):
        if out in sums:
            inputs = [jaxpr.consts.get(x, x) for x in inputs]
            cts = transpose_rules[primitive](sums[out], *inputs, **params)
            for x, ct in zip(inputs, cts): give(x, ct)
    return tree_map(lambda x: sums.get(x, np.zeros(x.shape)), jaxpr.invars)

def vjp(f, *primals):
    """f(*primals), and a function that takes a cotangent of it to the primals'."""
    out, jaxpr = linearize(f, *primals)
    return out, partial(transpose, jaxpr)

def grad(f):
    """The gradient, by its first argument, of a function that gives one number."""
    def gradient(x, *rest):
        out, f_vjp = vjp(lambda x: f(x, *rest), x)
        if np.shape(out): raise ValueError(f"grad of a result of shape {np.shape(out)}")
        return f_vjp(1.0)[0]
    return gradient

# ---- 5. One more axis.

class BatchTrace(Trace):
    """A value has one more axis, in front, where no primitive looks."""
    def enter(self, x): return Tracer(self, np.shape(x)[1:], batch=x)
    def batch(self, x):
        if self.owns(x): return x.batch
        return broadcast(x, axis=-len(np.shape(x)) - 1, size=self.size)
    def process(self, primitive, args, params):
        with self.parent:
            if not any(map(self.owns, args)): return primitive(*args, **params)
            args = [x if is_number(x) else self.batch(x) for x in args]
            return self.enter(primitive(*args, **params))

def vmap(f, in_axes=0):
    """`f` of one example becomes `f` of a batch; each of `in_axes` is 0 or None."""
    def batched(*args):
        axes = in_axes if isinstance(in_axes, tuple) else (in_axes,) * len(args)
        if not {*axes} <= {0, None}: raise ValueError(f"in_axes {axes}, not 0 or None")
        mapped = leaves(tuple(x for axis, x in zip(axes, args) if axis == 0))
        sizes = {np.shape(x)[0] for x in mapped}
        if len(sizes) != 1: raise ValueError(f"vmap over axes of sizes {sorted(sizes)}")
        trace = BatchTrace(parent=traces[-1], size=sizes.pop())
        def enter(axis, x): return x if axis is None else tree_map(trace.enter, x)
        with trace: out = f(*map(enter, axes, args))
        return tree_map(trace.batch, out)
    return batched

# ---- 6. Your element at i?

class Loops:
    """A program as the text of a Python function, which fills arrays by loops."""
    def __init__(self, jaxpr):
        self.jaxpr, self.nests = jaxpr, []
        self.todo = {out: eqn for *eqn, out in jaxpr.eqns}  # what no array holds so far
        for x in filter(self.todo.get, leaves(jaxpr.outs)): self.store(x)
    def element(self, x, index, body=None):  # computed in the body, or in an array
        if is_number(x): return str(x)
        if x not in self.todo: return f"{x}[{', '.join(index) or '()'}]"
        primitive, inputs, params = self.todo[x]
        if primitive is broadcast:
            return self.element(inputs[0], drop(index, params["axis"]))
        if primitive is reduce_sum or body is None:
            self.store(x)
            return self.element(x, index)
        name = f"{x}_{index}"
        if name not in body:
            operands = [self.element(y, index, body) for y in inputs]
            body[name] = f"{name} = {primitive}({', '.join(operands)})"
        return name
    def store(self, x):  # loops over the elements of `x`, or over those that it sums
        primitive, inputs, params = self.todo[x]
        over, put = (inputs[0], "+=") if primitive is reduce_sum else (x, "=")
        index, body = "ijklmn"[:len(over.shape)], {}
        value = self.element(over, index, body)
        del self.todo[x]
        target = self.element(x, drop(index, **params) if put == "+=" else index)
        nest = "\n".join([*body.values(), f"{target} {put} {value}"])
        for letter, size in reversed([*zip(index, over.shape)]):
            nest = f"for {letter} in range({size}):\n" + indent(nest, "    ")
        self.nests.append(f"{x} = np.zeros({x.shape})\n{nest}")
    def __repr__(self):
        inputs = (*self.jaxpr.consts, *self.jaxpr.invars)
        lines = [f"{inputs} = inputs", *self.nests, f"return {self.jaxpr.outs}"]
        return "def kernel(inputs):\n" + indent("\n".join(lines), "    ")

def compiled(text):
    """The function of a text: as machine code or, without numba, as it stands."""
    exec(text, names := {"np": np, **eval_rules})
    try: from numba import njit
    except ImportError:
        warnings.warn("without numba loops run in plain Python", stacklevel=3)
        return names["kernel"]
    return njit(names["kernel"])

def jit(f):
    """`f`, traced once for each set of shapes, and run as loops."""
    programs = {}
    def jitted(*args):
        shapes = tree_map(np.shape, args)
        if shapes not in programs:
            jaxpr = make_jaxpr(f)(*args)
            programs[shapes] = jaxpr, compiled(str(Loops(jaxpr)))
        jaxpr, kernel = programs[shapes]
        if traces[-1] is not traces[0]: return jaxpr(*args)  # it is traced itself
        inputs = (*jaxpr.consts.values(), *args)
        return kernel(tree_map(partial(np.asarray, dtype=float, order="C"), inputs))
    return jitted
