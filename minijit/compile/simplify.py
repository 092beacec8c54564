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

from ..trace import elementwise as more, primitives as prim
from ..trace.array import ArrayImpl, ShapedArray, eval_rules, shape_rules, wrap
from ..trace.config import config
from ..trace.core import EvalTrace, Tracer, find_rule, set_trace
from ..trace.jaxpr import ClosedJaxpr, Eqn, Jaxpr, Literal, Var, dce, scalar, subjaxprs
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

# Functions of at most this many equations are inlined wherever they are called.
SMALL_FUNCTION = 16
# Constants with at most this many elements are computed while compiling.
SMALL_CONSTANT = 64


def simplify(closed, fast_math=None):
    """A `ClosedJaxpr` of the same function, with as few equations as the rules find.

    Args:
      closed: a `ClosedJaxpr`; its inputs, and the types of its results, stay.
      fast_math: whether floats may be taken for real numbers; by default what the
        flag `config.fast_math` says.

    Returns:
      A `ClosedJaxpr`.  Takes time about linear in the number of equations.
    """
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
        calls.done[closed] = walk.finish(inputs, outvars, closed.jaxpr.debug)
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
        rule = find_rule(shape_rules, primitive, "shape")
        out = rule(*[x.aval for x in args], **params)
        return self.emit(primitive, list(args), params, [out])[0]

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
        if isinstance(value, Tracer):
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
        value = self.values.get(atom)
        if value is None or isinstance(value, Tracer):
            return None
        return np.asarray(value) if atom.aval.size <= SMALL_CONSTANT else None

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
        if primitive in elementwise and out.shape:
            scalars = [self.uniform(x) for x in args]
            if any(x is None for x in scalars):
                return None
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
    with set_trace(EvalTrace()):
        return find_rule(eval_rules, primitive, "eval")(*map(wrap, values), **params)._value


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
    prim.add_p,
    prim.mul_p,
    prim.max_p,
    prim.min_p,
    prim.and_p,
    prim.or_p,
    prim.xor_p,
    prim.eq_p,
    prim.ne_p,
}

# These make large results out of little: better made where they are used than loaded.
never_folded = {jit_p, prim.iota_p, prim.broadcast_in_dim_p}

# Primitives that do the same to each element, so that they may be applied to one.
elementwise = {
    prim.neg_p, prim.sign_p, prim.abs_p, prim.exp_p, prim.log_p, prim.sqrt_p,
    prim.sin_p, prim.cos_p, prim.tanh_p, prim.not_p, prim.convert_element_type_p,
    prim.integer_pow_p, prim.pow_p, prim.select_n_p, prim.div_p, prim.sub_p,
    prim.lt_p, prim.le_p, prim.gt_p, prim.ge_p, more.exp2_p, more.expm1_p,
    more.log1p_p, more.tan_p, more.logistic_p, more.rsqrt_p, more.square_p,
    more.shift_left_p, more.shift_right_logical_p, more.shift_right_arithmetic_p,
} | commutative  # fmt: skip
