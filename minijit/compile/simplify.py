"""Simplify: from a jaxpr to a smaller jaxpr that computes the same bits.

    closed = make_jaxpr(lambda x: (x.T.T * 1.0) + jnp.sin(x) + jnp.sin(x))(x)
    simplify(closed)
    # { lambda ; a:f32[2,3]. let b:f32[2,3] = sin a; c:f32[2,3] = add a b; ...

One walk over the equations, each of which is looked at once, in order:

 - calls that are small, or the only ones of their function, are replaced by its body;
 - a rule of the table `rules` may know something shorter: `x * 1` is x, and two
   transposes in a row are one;
 - an equation of constants is computed now, if the result is small;
 - an equation that was met before, with the same arguments, is not repeated.

What nobody needs afterwards is dropped.  Every rewrite keeps IEEE results to the bit:
`x + 0.0` stays, because -0.0 + 0.0 is 0.0; so does `x + y - x`.  Only `fast_math`
allows the rules of `fast_rules`, which are true of real numbers and not of floats.
"""

from dataclasses import dataclass

import numpy as np

from ..trace import primitives as prim, slicing
from ..trace.array import ArrayImpl, ShapedArray, eval_rules, result_avals, wrap
from ..trace.config import config
from ..trace.core import EvalTrace, Tracer, find_rule, set_trace
from ..trace.jaxpr import (
    ClosedJaxpr,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    dce,
    has_effect,
    scalar,
    subjaxprs,
)
from ..trace.jit import jit_p

# primitive -> [rule, ...]; a rule: (simplifier, aval of the result, *atoms, **params)
# -> the atom that is the result, or None where the rule has nothing to say.
rules: dict = {}
fast_rules: dict = {}

config.define(
    "fast_math",
    False,
    "let simplify rewrite floats as if they were real numbers: x + y - x to y",
    changes_traces=True,
)

# Other primitives than jit that call a function: rule(**params) -> the function whose
# body is to take the place of the call, or None if the call is to stay.
inline_rules = {}


# Functions closed jaxpr -> closed jaxpr: what is to happen before anything else.
preparations = []

# Functions of at most this many equations are inlined wherever they are called.
SMALL_FUNCTION = 16
# Constants with at most this many elements are computed while compiling.
SMALL_CONSTANT = 256


def simplify(closed, fast_math=None):
    """A `ClosedJaxpr` of the same function, with as few equations as the rules find.

    Args:
      closed: a `ClosedJaxpr`; its inputs, and the types of its results, stay.
      fast_math: whether floats may be taken for real numbers; by default what the
        flag `config.fast_math` says.

    Returns:
      A `ClosedJaxpr`.  Takes time about linear in the number of equations.
    """
    for prepare in preparations:
        closed = prepare(closed)
    fast = config.fast_math if fast_math is None else fast_math
    calls = Calls(count_calls(closed.jaxpr), {}, fast)
    return simplify_function(closed, calls)


@dataclass(frozen=True)
class Calls:
    """What is known of the functions that a program calls.

    Attributes:
      counts: {jaxpr: in how many equations it is called}.
      done: {closed jaxpr: what it was simplified to}.
      fast_math: as for `simplify`.
    """

    counts: dict
    done: dict
    fast_math: bool


def count_calls(jaxpr):
    """{jaxpr: number of equations, anywhere in the program, that call it}."""
    counts, todo = {}, [jaxpr]
    for jaxpr in todo:
        for eqn in jaxpr.eqns:
            for sub in subjaxprs(eqn):
                counts[sub] = counts.get(sub, 0) + 1
                if counts[sub] == 1:
                    todo.append(sub)
    return counts


def simplify_function(closed, calls):
    """`simplify` one jaxpr, once for all equations that have it as a param."""
    if closed not in calls.done:
        walk = Simplifier(calls)
        inputs = closed.jaxpr.invars
        atoms = walk.run(closed, inputs)
        outvars = tuple(
            walk.with_type(atom, v.aval)
            for atom, v in zip(atoms, closed.jaxpr.outvars, strict=True)
        )
        simpler = walk.finish(inputs, outvars, closed.jaxpr.debug)
        calls.done.update({closed: simpler, simpler: simpler})
        calls.counts[simpler.jaxpr] = calls.counts.get(closed.jaxpr, 1)
    return calls.done[closed]


@dataclass
class Frame:
    """A jaxpr on its way through the simplifier: the program, or an inlined call.

    Attributes:
      eqns: an iterator over the equations to come.
      env: {variable of the jaxpr: atom of the new program}.
      outvars: the jaxpr's results.
      targets: the variables of the frame below that stand for them.
    """

    eqns: object
    env: dict
    outvars: tuple
    targets: tuple

    def read(self, atom):
        """The new program's atom for one of the jaxpr's."""
        return atom if isinstance(atom, Literal) else self.env[atom]


class Simplifier:
    """Builds the new program, equation by equation.

    Attributes:
      eqns: the equations so far.
      makers: {variable: the equation that assigns it}.
      known: {(primitive, arguments, params): atoms}, the equations met before.
      constants: {key of a value: (constvar, value)}; values: {constvar: value}.
    """

    def __init__(self, calls):
        self.calls = calls
        self.eqns = []
        self.makers = {}
        self.known = {}
        self.constants = {}
        self.values = {}
        self.source = None

    def run(self, closed, args):
        """Put the equations of a jaxpr through; inlined calls have their own frames.

        Returns: the atoms of its results.
        """
        stack = [self.frame(closed, args, ())]
        while True:
            frame = stack[-1]
            eqn = next(frame.eqns, None)
            if eqn is None:
                stack.pop()
                results = [frame.read(v) for v in frame.outvars]
                if not stack:
                    return results
                stack[-1].env.update(zip(frame.targets, results, strict=True))
                continue
            args = [frame.read(v) for v in eqn.invars]
            callee = self.to_inline(eqn)
            if callee is not None:
                stack.append(self.frame(callee, args, eqn.outvars))
            else:
                self.source = eqn.source
                results = self.equation(eqn, args)
                frame.env.update(zip(eqn.outvars, results, strict=True))

    def frame(self, closed, args, targets):
        """A frame for a jaxpr applied to atoms."""
        jaxpr = closed.jaxpr
        env = dict(zip(jaxpr.invars, args, strict=True))
        consts = zip(jaxpr.constvars, closed.consts, strict=True)
        env |= {v: self.constant(value, v.aval) for v, value in consts}
        return Frame(iter(jaxpr.eqns), env, jaxpr.outvars, targets)

    def to_inline(self, eqn):
        """The function that an equation calls, if its body is to take its place."""
        if eqn.primitive in inline_rules:
            return inline_rules[eqn.primitive](**eqn.params)
        if eqn.primitive is not jit_p:
            return None
        closed = eqn.params["jaxpr"]
        small = len(closed.jaxpr.eqns) <= SMALL_FUNCTION
        if self.calls.counts.get(closed.jaxpr, 1) == 1 or small:
            return closed
        simpler = simplify_function(closed, self.calls)
        return simpler if len(simpler.jaxpr.eqns) <= SMALL_FUNCTION else None

    def equation(self, eqn, args):
        """The atoms for the results of one equation, which may add others before."""
        params = {k: self.param(v) for k, v in eqn.params.items()}
        avals = [v.aval for v in eqn.outvars]
        return self.emit(eqn.primitive, args, params, avals)

    def param(self, value):
        """A parameter with the functions in it simplified."""
        if isinstance(value, ClosedJaxpr):
            return simplify_function(value, self.calls)
        if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
            return tuple(map(self.param, value))
        return value

    def emit(self, primitive, args, params, avals):
        """The atoms for a primitive applied to atoms: known, computed or new ones."""
        if not primitive.multiple_results:
            result = self.by_rule(primitive, avals[0], args, params)
            if result is None:
                result = self.fold(primitive, avals[0], args, params)
            if result is not None:
                return [result]
        key = primitive, self.args_key(primitive, args), freeze(params)
        if key not in self.known:
            outvars = [Var(aval) for aval in avals]
            eqn = Eqn(primitive, tuple(args), tuple(outvars), params, self.source)
            self.makers |= dict.fromkeys(outvars, eqn)
            self.eqns.append(eqn)
            if has_effect(eqn):
                return outvars
            self.known[key] = outvars
        return self.known[key]

    def by_rule(self, primitive, out, args, params):
        """What the first rule that applies says, or None."""
        tables = (rules, fast_rules) if self.calls.fast_math else (rules,)
        for table in tables:
            for rule in table.get(primitive, ()):
                result = rule(self, out, *args, **params)
                if result is not None and same_type(result.aval, out):
                    return result
        return None

    def apply(self, primitive, *args, **params):
        """For rules: the atom for another primitive's result, its type worked out."""
        out = result_avals(primitive, [x.aval for x in args], params, self.source)
        return self.emit(primitive, list(args), params, out)[0]

    def args_key(self, primitive, args):
        """A key for arguments, the same in either order where that does not matter."""
        keys = [atom_key(x) for x in args]
        if primitive in commutative and args[0].aval.shape == args[1].aval.shape:
            if primitive not in (prim.max_p, prim.min_p) or exact(args[0].aval.dtype):
                keys.sort(key=hash)
        return tuple(keys)

    def maker(self, atom, primitive):
        """The equation that assigns an atom, if it is one of `primitive`, or None."""
        eqn = self.makers.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and eqn.primitive is primitive else None

    def constant(self, value, aval):
        """The atom for a constant: a literal if it has no axes, else a constvar."""
        if isinstance(value, Tracer) or not isinstance(aval, ShapedArray):
            key = id(value)
        else:
            array = np.asarray(value)
            if array.shape == ():
                return Literal(scalar(array, aval), aval)
            key = value_key(array, value)
        if key not in self.constants:
            var = Var(aval)
            self.constants[key] = var, value
            self.values[var] = value
        return self.constants[key][0]

    def value(self, atom):
        """The NumPy value of a constant of few elements, or None."""
        if isinstance(atom, Literal):
            return atom.val
        if atom.aval.size > SMALL_CONSTANT:
            return None
        eqn = self.makers.get(atom)
        if eqn is not None and eqn.primitive in never_folded:
            inputs = [self.value(x) for x in eqn.invars]
            known = not any(x is None for x in inputs) and eqn.primitive is not jit_p
            return compute(eqn.primitive, inputs, eqn.params) if known else None
        value = self.values.get(atom)
        return None if isinstance(value, Tracer | None) else np.asarray(value)

    def uniform(self, atom):
        """The scalar of which every element of an atom is a copy, or None."""
        eqn = self.maker(atom, prim.broadcast_in_dim_p)
        if eqn is not None and isinstance(eqn.invars[0], Literal):
            return eqn.invars[0].val
        value = self.value(atom)
        if value is None or value.size == 0:
            return None
        first = value.reshape(-1)[:1]
        same = first.tobytes() * value.size == value.tobytes()
        return first.reshape(()) if same else None

    def filled(self, value, out):
        """The atom for a scalar repeated to the type `out`."""
        literal_aval = ShapedArray((), out.dtype, out.weak_type)
        literal = Literal(scalar(value, literal_aval), literal_aval)
        if out.shape == ():
            return literal
        params = {"shape": out.shape, "broadcast_dimensions": ()}
        return self.emit(prim.broadcast_in_dim_p, [literal], params, [out])[0]

    def fold(self, primitive, out, args, params):
        """The value of an equation of constants, or None."""
        if not args or primitive in never_folded or primitive not in eval_rules:
            return None
        if not isinstance(out, ShapedArray):
            return None
        if primitive in elementwise and out.shape:
            scalars = [self.uniform(x) for x in args]
            if all(x is not None for x in scalars):
                return self.filled(compute(primitive, scalars, params), out)
        values = [self.value(x) for x in args]
        if out.size > SMALL_CONSTANT or any(x is None for x in values):
            return None
        return self.constant(ArrayImpl(compute(primitive, values, params), out), out)

    def with_type(self, atom, aval):
        """An atom as a result of a type that may be weak where the atom's is not."""
        if isinstance(atom, Literal):
            return Literal(atom.val, aval)
        if atom.aval == aval:
            return atom
        var = Var(aval)
        params = {"new_dtype": aval.dtype, "weak_type": aval.weak_type}
        convert = Eqn(prim.convert_element_type_p, (atom,), (var,), params)
        self.eqns.append(convert)
        return var

    def finish(self, invars, outvars, debug):
        """The new program, without what is not needed."""
        constvars = tuple(self.values)
        jaxpr = dce(Jaxpr(constvars, tuple(invars), tuple(self.eqns), outvars, debug))
        return ClosedJaxpr(jaxpr, tuple(self.values[v] for v in jaxpr.constvars))


def same_type(a, b):
    """Whether two avals differ in nothing but weakness, which only tracing minds."""
    return a.shape == b.shape and a.dtype == b.dtype


def compute(primitive, values, params):
    """The NumPy value of a primitive applied to NumPy values."""
    rule = find_rule(eval_rules, primitive, "eval")
    with set_trace(EvalTrace()):
        return rule(*map(wrap, values), **params).numpy()


def atom_key(atom):
    """A key for an atom: a literal's is its dtype and its bits."""
    return atom if isinstance(atom, Var) else (atom.val.dtype, atom.val.tobytes())


def value_key(array, value):
    """A key for a constant: its type and bytes, or of a large one its identity."""
    if array.nbytes > 1024:
        return id(value)
    return array.dtype, array.shape, array.tobytes()


def freeze(value):
    """A hashable key for params; numbers count with their types, and by their bits."""
    if isinstance(value, dict):
        return tuple((k, freeze(value[k])) for k in sorted(value))
    if isinstance(value, (tuple, list)):
        return type(value), tuple(map(freeze, value))
    if isinstance(value, (float, complex)):
        return type(value), repr(value)
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    return type(value), value if hasattr(value, "__hash__") else id(value)


def exact(dtype):
    """Whether arithmetic on a dtype is exact: integers, which wrap, and bools."""
    return dtype.kind in "iub"


def real(dtype):
    """Whether a dtype is exact or a float, and not complex."""
    return dtype.kind != "c"


# Primitives of two arguments whose order does not matter.
commutative = {
    prim.add_p, prim.mul_p, prim.max_p, prim.min_p, prim.eq_p, prim.ne_p,
    prim.and_p, prim.or_p, prim.xor_p,
}  # fmt: skip

# These make large results out of little: better made where they are used than loaded.
never_folded = {jit_p, prim.iota_p, prim.broadcast_in_dim_p}

# Primitives that do the same to each element, so that they may be applied to one.
elementwise = {
    prim.neg_p, prim.sign_p, prim.abs_p, prim.exp_p, prim.log_p, prim.sqrt_p,
    prim.sin_p, prim.cos_p, prim.tanh_p, prim.not_p, prim.convert_element_type_p,
    prim.integer_pow_p, prim.pow_p, prim.select_n_p, prim.div_p, prim.sub_p,
    prim.lt_p, prim.le_p, prim.gt_p, prim.ge_p,
} | commutative  # fmt: skip


# The rules of arithmetic.  Each says of which types it is exactly true.


def holds(s, atom, value):
    """Whether every element of an atom is `value`, which is a zero of this sign."""
    given = s.uniform(atom)
    if given is None or given != value:
        return False
    return given.dtype.kind != "f" or np.signbit(given) == np.signbit(float(value))


def neutral_add(s, out, x, y):
    """x + 0 of integers; of floats only x + -0.0, which keeps -0.0 as it is."""
    zero = 0 if exact(out.dtype) else -0.0
    for a, b in ((x, y), (y, x)):
        if real(out.dtype) and holds(s, b, zero):
            return a


def neutral_sub(s, out, x, y):
    """x - 0, of floats too; x - x only of integers, as inf - inf is NaN."""
    if real(out.dtype) and holds(s, y, 0):
        return x
    if exact(out.dtype) and x is y:
        return s.filled(0, out)


def neutral_mul(s, out, x, y):
    """x * 1; x * 0 only of integers, as inf * 0 is NaN and -1.0 * 0 is -0.0."""
    for a, b in ((x, y), (y, x)):
        if real(out.dtype) and holds(s, b, 1):
            return a
        if exact(out.dtype) and holds(s, b, 0):
            return s.filled(0, out)


def neutral_div(s, out, x, y):
    """x / 1; x / 2**k is x * 2**-k, as both round the same number."""
    if real(out.dtype) and holds(s, y, 1):
        return x
    given = s.uniform(y)
    if out.dtype.kind != "f" or given is None or not np.isfinite(given) or given == 0:
        return None
    mantissa, _ = np.frexp(given)
    with np.errstate(over="ignore"):
        inverse = (1 / given).astype(out.dtype)
    tiny = np.finfo(out.dtype).tiny
    if abs(mantissa) == 0.5 and np.isfinite(inverse) and abs(inverse) >= tiny:
        return s.apply(prim.mul_p, x, s.filled(inverse, y.aval))


def signs_in_sum(s, out, x, y):
    """x + -y is x - y."""
    negated = s.maker(y, prim.neg_p)
    if negated and real(out.dtype):
        return s.apply(prim.sub_p, x, negated.invars[0])


def signs_in_difference(s, out, x, y):
    """x - -y is x + y."""
    negated = s.maker(y, prim.neg_p)
    if negated and real(out.dtype):
        return s.apply(prim.add_p, x, negated.invars[0])


rules |= {
    prim.add_p: [neutral_add, signs_in_sum],
    prim.sub_p: [neutral_sub, signs_in_difference],
    prim.mul_p: [neutral_mul],
    prim.div_p: [neutral_div],
}


def undone_by(inner):
    """A rule: the primitive undoes `inner`, so that of both nothing is left."""

    def rule(s, out, x):
        eqn = s.maker(x, inner)
        return eqn and eqn.invars[0]

    return rule


def idempotent(primitive):
    """A rule: once applied, the primitive changes nothing any more."""

    def rule(s, out, x):
        return x if s.maker(x, primitive) else None

    return rule


def same_twice(s, out, x, y):
    """max(x, x), x & x and the like are x."""
    return x if x is y else None


def small_power(s, out, x, *, y):
    """x ** 1 is x, and x ** 2 is x * x."""
    return x if y == 1 else s.apply(prim.mul_p, x, x) if y == 2 else None


rules |= {
    prim.neg_p: [undone_by(prim.neg_p)],
    prim.not_p: [undone_by(prim.not_p)],
    prim.abs_p: [idempotent(prim.abs_p)],
    prim.sign_p: [idempotent(prim.sign_p)],
    prim.max_p: [same_twice],
    prim.min_p: [same_twice],
    prim.integer_pow_p: [small_power],
    prim.copy_p: [lambda s, out, x: x],
}


def bitwise(neutral, absorbing):
    """A rule for `and` and `or`: the value that keeps x, and the one that wins."""

    def rule(s, out, x, y):
        for a, b in ((x, y), (y, x)):
            if holds_bits(s, b, neutral):
                return a
            if holds_bits(s, b, absorbing):
                return s.filled(s.uniform(b), out)

    return rule


def holds_bits(s, atom, bit):
    """Whether every bit of every element of an atom is `bit`."""
    given = s.uniform(atom)
    if given is None:
        return False
    return bool(given == (np.invert(np.zeros_like(given)) if bit else 0))


def neutral_xor(s, out, x, y):
    """x ^ x is 0, x ^ 0 is x."""
    if x is y:
        return s.filled(0, out)
    for a, b in ((x, y), (y, x)):
        if holds_bits(s, b, 0):
            return a


rules |= {
    prim.and_p: [same_twice, bitwise(1, 0)],
    prim.or_p: [same_twice, bitwise(0, 1)],
    prim.xor_p: [neutral_xor],
}


def known_choice(s, out, which, *cases):
    """A select whose predicate is constant, negated, or without effect."""
    if all(case is cases[0] for case in cases):
        return cases[0]
    index = s.uniform(which)
    if index is not None:
        return cases[min(max(int(index), 0), len(cases) - 1)]
    negated = s.maker(which, prim.not_p)
    if negated and which.aval.dtype == bool:
        return s.apply(prim.select_n_p, negated.invars[0], *reversed(cases))


def conversions(s, out, x, *, new_dtype, weak_type):
    """To the same dtype; or of a conversion that lost nothing: leave that one out."""
    if x.aval.dtype == new_dtype:
        return x
    eqn = s.maker(x, prim.convert_element_type_p)
    if eqn is None:
        return None
    origin = eqn.invars[0]
    if not lossless(origin.aval.dtype, x.aval.dtype):
        return None
    if origin.aval.dtype == new_dtype:
        return origin
    if same_value_converts_alike(origin.aval.dtype, x.aval.dtype, new_dtype):
        params = {"new_dtype": new_dtype, "weak_type": weak_type}
        return s.apply(prim.convert_element_type_p, origin, **params)


def lossless(source, target):
    """Whether every value of a dtype is a value of another."""
    # NumPy calls a float64 safe for integers of 64 bits.
    wide = source.kind in "iu" and source.itemsize == 8
    return np.can_cast(source, target, "safe") and not (wide and target.kind in "fc")


def same_value_converts_alike(source, middle, target):
    """Whether the same number converts to `target` alike from both dtypes.

    Not from integers to 16-bit floats, which may be rounded twice on the way.
    """
    if "c" in (source.kind, middle.kind, target.kind):
        return False
    if exact(target):
        # From an integer they wrap, from a float they saturate.
        return target.kind == "b" or exact(source) == exact(middle)
    return target.itemsize >= 4


rules |= {
    prim.select_n_p: [known_choice],
    prim.convert_element_type_p: [conversions],
}


# The rules of layout: chains become one link, and links that move nothing go.


def broadcasts(s, out, x, *, shape, broadcast_dimensions):
    """A broadcast of nothing new; of a broadcast, where each axis goes in the end."""
    if x.aval.shape == shape and broadcast_dimensions == tuple(range(len(shape))):
        return x
    eqn = s.maker(x, prim.broadcast_in_dim_p)
    if eqn:
        inner = eqn.params["broadcast_dimensions"]
        dims = tuple(broadcast_dimensions[d] for d in inner)
        params = {"shape": shape, "broadcast_dimensions": dims}
        return s.apply(prim.broadcast_in_dim_p, eqn.invars[0], **params)


def transposes(s, out, x, *, permutation):
    """A transpose that moves nothing, or of a transpose, or of equal elements."""
    if permutation == tuple(range(len(permutation))):
        return x
    eqn = s.maker(x, prim.transpose_p)
    if eqn:
        inner = eqn.params["permutation"]
        both = tuple(inner[p] for p in permutation)
        return s.apply(prim.transpose_p, eqn.invars[0], permutation=both)
    return refilled(s, out, x)


def refilled(s, out, x):
    """A layout operation on copies of one scalar makes copies of that scalar."""
    value = s.uniform(x) if s.maker(x, prim.broadcast_in_dim_p) else None
    return None if value is None else s.filled(value, out)


def reshapes(s, out, x, *, new_sizes, dimensions):
    """A reshape to the same shape, or of something that keeps the order of elements."""
    if dimensions is not None:
        return None
    if x.aval.shape == new_sizes:
        return x
    origin, dims = in_same_order(s, x)
    if origin is not None:
        params = {"new_sizes": new_sizes, "dimensions": dims}
        return s.apply(prim.reshape_p, origin, **params)
    return refilled(s, out, x)


def in_same_order(s, x):
    """(what x is a reshape of, the `dimensions` of that reshape), or (None, None)."""
    for primitive in (prim.reshape_p, prim.squeeze_p, prim.broadcast_in_dim_p):
        eqn = s.maker(x, primitive)
        if eqn is None:
            continue
        origin = eqn.invars[0]
        dims = eqn.params.get("broadcast_dimensions", ())
        if origin.aval.size == x.aval.size and list(dims) == sorted(dims):
            return origin, eqn.params.get("dimensions") if primitive is (
                prim.reshape_p
            ) else None
    return None, None


def squeezes(s, out, x, *, dimensions):
    """A squeeze of no axis; of a reshape or of axes that were just put there."""
    if not dimensions:
        return x
    origin, dims = in_same_order(s, x)
    if origin is not None and dims is None:
        params = {"new_sizes": out.shape, "dimensions": None}
        return s.apply(prim.reshape_p, origin, **params)
    return refilled(s, out, x)


rules |= {
    prim.broadcast_in_dim_p: [broadcasts],
    prim.transpose_p: [transposes],
    prim.reshape_p: [reshapes],
    prim.squeeze_p: [squeezes],
}


def slices(s, out, x, *, start_indices, limit_indices, strides):
    """A slice of all there is, or of a slice, or of copies of one scalar."""
    if x.aval.shape == out.shape:
        return x
    eqn = s.maker(x, prim.slice_p)
    if eqn is None:
        return refilled(s, out, x)
    ones = (1,) * len(out.shape)
    steps = eqn.params["strides"] or ones
    offsets = zip(eqn.params["start_indices"], steps, start_indices, strict=True)
    starts = tuple(a + step * b for a, step, b in offsets)
    strides = tuple(a * b for a, b in zip(steps, strides or ones, strict=True))
    ends = zip(starts, strides, out.shape, strict=True)
    limits = tuple(a + step * (n - 1) + 1 if n else a for a, step, n in ends)
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return s.apply(prim.slice_p, eqn.invars[0], **params)


def reversals(s, out, x, *, dimensions):
    """A reversal of axes with one element; of a reversal, the axes in just one."""
    long = tuple(d for d in dimensions if out.shape[d] > 1)
    eqn = s.maker(x, slicing.rev_p)
    if not long:
        return x
    if eqn:
        inner = eqn.params["dimensions"]
        dims = tuple(sorted(set(inner) ^ set(long)))
        origin = eqn.invars[0]
        return s.apply(slicing.rev_p, origin, dimensions=dims) if dims else origin
    return refilled(s, out, x)


def concatenations(s, out, *xs, dimension):
    """Without the empty pieces; of a single piece that piece."""
    full = [x for x in xs if x.aval.shape[dimension] > 0]
    if len(full) == 1:
        return full[0]
    if 0 < len(full) < len(xs):
        return s.apply(prim.concatenate_p, *full, dimension=dimension)


def no_padding(s, out, x, value, *, padding_config):
    """Padding by nothing."""
    return x if all(p == (0, 0, 0) for p in padding_config) else None


def fixed_slice(s, out, x, *starts, slice_sizes):
    """A slice at a place that is known: an ordinary one, clamped into the array."""
    places = [s.uniform(start) for start in starts]
    if any(place is None for place in places):
        return None
    sizes = zip(places, x.aval.shape, slice_sizes, strict=True)
    firsts = tuple(min(max(int(place), 0), n - size) for place, n, size in sizes)
    lasts = tuple(a + n for a, n in zip(firsts, slice_sizes, strict=True))
    params = {"start_indices": firsts, "limit_indices": lasts, "strides": None}
    return s.apply(prim.slice_p, x, **params)


def over_no_axes(s, out, x, *, axes):
    """A reduction over no axes."""
    return None if axes else x


rules |= {
    prim.slice_p: [slices],
    slicing.rev_p: [reversals],
    prim.concatenate_p: [concatenations],
    slicing.pad_p: [no_padding],
    slicing.dynamic_slice_p: [fixed_slice],
    prim.reduce_sum_p: [over_no_axes],
    prim.reduce_prod_p: [over_no_axes],
    prim.reduce_max_p: [over_no_axes],
    prim.reduce_min_p: [over_no_axes],
    prim.reduce_and_p: [over_no_axes],
    prim.reduce_or_p: [over_no_axes],
}


# What is true of real numbers, and changes the last bits of floats, or signs of zeros,
# or what becomes of infinities and NaN.


def cancel_in_sum(s, out, x, y):
    """x + 0 is x, and (a - y) + y is a."""
    for a, b in ((x, y), (y, x)):
        if holds(s, b, 0):
            return a
        difference = s.maker(a, prim.sub_p)
        if difference and difference.invars[1] is b:
            return difference.invars[0]


def cancel_in_difference(s, out, x, y):
    """x - x is 0, and (a + y) - y is a."""
    if x is y:
        return s.filled(0, out)
    total = s.maker(x, prim.add_p)
    if total and y in total.invars:
        return total.invars[1 - total.invars.index(y)]


def cancel_in_product(s, out, x, y):
    """x * 0 is 0, and (a * constant) * constant has one constant."""
    for a, b in ((x, y), (y, x)):
        if holds(s, b, 0):
            return s.filled(0, out)
        product, factor = s.maker(a, prim.mul_p), s.uniform(b)
        if product is None or factor is None:
            continue
        for c, d in (product.invars, product.invars[::-1]):
            other = s.uniform(d)
            if other is not None:
                return s.apply(prim.mul_p, c, s.filled(factor * other, b.aval))


def cancel_in_quotient(s, out, x, y):
    """x / x is 1, and x / constant is x * (1 / constant)."""
    if x is y:
        return s.filled(1, out)
    given = s.uniform(y)
    if given is not None and given != 0 and out.dtype.kind == "f":
        return s.apply(prim.mul_p, x, s.filled(1 / given, y.aval))


fast_rules |= {
    prim.add_p: [cancel_in_sum],
    prim.sub_p: [cancel_in_difference],
    prim.mul_p: [cancel_in_product],
    prim.div_p: [cancel_in_quotient],
}
