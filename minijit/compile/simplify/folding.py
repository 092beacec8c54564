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

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ...trace import primitives as prim
from ...trace.array import ArrayImpl, ShapedArray, result_avals
from ...trace.core import Tracer, eval_rules
from ...trace.jaxprs.jaxpr import (
    ClosedJaxpr, Eqn, Jaxpr, Literal, Var, dce, has_effect, scalar, subjaxprs,
)
from ...trace.jit.jit import jit_p
from ..pipeline import shortcuts
from ..settings import config
from .known_values import compute, known_value, never_folded, uniform

# Primitives of two arguments whose order does not matter.
commutative = {
    prim.add_p, prim.mul_p, prim.max_p, prim.min_p, prim.eq_p, prim.ne_p,
    prim.and_p, prim.or_p, prim.xor_p,
}  # fmt: skip
# Primitives that do the same to each element, so that they may be applied to one.
elementwise = {
    prim.neg_p, prim.sign_p, prim.abs_p, prim.exp_p, prim.log_p, prim.sqrt_p,
    prim.sin_p, prim.cos_p, prim.tanh_p, prim.not_p, prim.convert_element_type_p,
    prim.integer_pow_p, prim.pow_p, prim.select_n_p, prim.div_p, prim.sub_p,
    prim.lt_p, prim.le_p, prim.gt_p, prim.ge_p, prim.rem_p, prim.floor_p,
} | commutative  # fmt: skip

# What later chapters add.
# Functions closed jaxpr -> closed jaxpr: what is to happen before anything else.
preparations = []
# Other primitives than jit that call a function: rule(**params) -> the function whose
# body is to take the place of the call, or None if the call is to stay.
inline_rules = {}
# Functions of a call: whether it is not to be inlined.
stay_calls = []
# primitive of a loop -> rule: (simplifier, arguments, params, avals of the results) ->
# their atoms, or None where the rule has nothing to say.
loop_rules = {}

config.define(
    "fast_math",
    False,
    "let simplify rewrite floats as if they were real numbers: x + y - x to y",
    changes_traces=True,
)


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
    return type(value), value if isinstance(value, Hashable) else id(value)


class NewProgram:
    """A program while it is written: its equations so far, and its constants.

    Attributes:
      settings: `Settings`, which say how small a constant is computed now.
      eqns: the equations so far.
      makers: {variable: the equation that assigns it}.
      constants: {key of a value: constvar}; values: {constvar: value}.
      source: the user's line that the next equations come from.
    """

    def __init__(self):
        self.settings = config.fusion
        self.eqns = []
        self.makers = {}
        self.constants = {}
        self.values = {}
        self.source = None

    def constant(self, value, aval):
        """The atom for a constant: a literal if it has no axes, else a constvar."""
        key = id(value)
        if not isinstance(value, Tracer) and isinstance(aval, ShapedArray):
            array = np.asarray(value)
            if array.shape == ():
                return Literal(scalar(array, aval), aval)
            if array.size <= self.settings.small_constant:
                key = array.dtype, array.shape, array.tobytes()
        if key not in self.constants:
            self.constants[key] = Var(aval)
            self.values[self.constants[key]] = value
        return self.constants[key]

    def finish(self, closed, atoms):
        """The new program, from the inputs of `closed` to atoms for its results."""
        old = closed.jaxpr
        pairs = zip(atoms, old.outvars, strict=True)
        outvars = tuple(self.with_type(atom, v.aval) for atom, v in pairs)
        eqns, constvars = tuple(self.eqns), tuple(self.values)
        jaxpr = dce(Jaxpr(constvars, old.invars, eqns, outvars, old.debug))
        return ClosedJaxpr(jaxpr, tuple(self.values[v] for v in jaxpr.constvars))

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

    def maker(self, atom, primitive):
        """The equation that assigns an atom, if it is one of `primitive`, or None."""
        eqn = self.makers.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and eqn.primitive is primitive else None


def same_type(a, b):
    """Whether two avals differ in nothing but weakness, which only tracing minds."""
    return a.shape == b.shape and a.dtype == b.dtype


def filled(s, value, out):
    """The atom for a scalar repeated to the type `out`."""
    literal_aval = ShapedArray((), out.dtype, out.weak_type)
    literal = Literal(scalar(value, literal_aval), literal_aval)
    if out.shape == ():
        return literal
    params = {"shape": out.shape, "broadcast_dimensions": ()}
    return s.emit(prim.broadcast_in_dim_p, [literal], params, [out])[0]


def real(dtype):
    """Whether a dtype is exact or a float, and not complex."""
    return dtype.kind != "c"


def holds(s, atom, value):
    """Whether every element of an atom is `value`, which is a zero of this sign."""
    given = uniform(s, atom)
    if given is None or given != value:
        return False
    # Not "f": a bfloat16 is of kind "V", and has two zeros as well.
    signed = real(given.dtype) and not exact(given.dtype)
    return not signed or np.signbit(given) == np.signbit(float(value))


# chapter 14
def atom_key(atom):
    """A key for an atom: a literal's is its dtype and its bits."""
    return atom if isinstance(atom, Var) else (atom.val.dtype, atom.val.tobytes())


def exact(dtype):
    """Whether arithmetic on a dtype is exact: integers, which wrap, and bools."""
    return dtype.kind in "iub"


def args_key(primitive, args):
    """A key for arguments, the same in either order where that does not matter."""
    keys = [atom_key(x) for x in args]
    if primitive in commutative and args[0].aval.shape == args[1].aval.shape:
        # Of 0.0 and -0.0 the maximum is the first, or the second.
        if primitive not in (prim.max_p, prim.min_p) or exact(args[0].aval.dtype):
            keys.sort(key=hash)
    return tuple(keys)


class Simplifier(NewProgram):
    """The new program, written equation by equation.

    Attributes:
      fast_math: whether the rules may take floats for real numbers.
      known: {(primitive, arguments, params): atoms}, the equations met before.
    """

    def __init__(self, fast_math=False):
        super().__init__()
        self.fast_math = fast_math
        self.known = {}

    def emit(self, primitive, args, params, avals):
        """The atoms for a primitive applied to atoms: known already, or new ones."""
        if not primitive.multiple_results:
            for shortcut in shortcuts.passes:
                atom = shortcut(self, primitive, avals[0], args, params)
                if atom is not None:
                    return [atom]
        key = primitive, args_key(primitive, args), freeze(params)
        if key not in self.known:
            outvars = [Var(aval) for aval in avals]
            eqn = Eqn(primitive, tuple(args), tuple(outvars), params, self.source)
            self.makers |= dict.fromkeys(outvars, eqn)
            self.eqns.append(eqn)
            if has_effect(eqn):
                return outvars
            self.known[key] = outvars
        return self.known[key]

    def apply(self, primitive, *args, **params):
        """For rules: the atom for another primitive's result, its type worked out."""
        out = result_avals(primitive, [x.aval for x in args], params, self.source)
        return self.emit(primitive, list(args), params, out)[0]


# primitive -> [rule, ...]; a rule: (simplifier, aval of the result, *atoms, **params)
# -> the atom that is the result, or None where the rule has nothing to say.
rules: dict = {}
# Rules that are true of real numbers and not of floats.
fast_rules: dict = {}


def by_rule(s, primitive, out, args, params):
    """What the first rule says that applies, or None."""
    for table in (rules, fast_rules) if s.fast_math else (rules,):
        for rule in table.get(primitive, ()):
            result = rule(s, out, *args, **params)
            if result is not None and same_type(result.aval, out):
                return result
    return None


shortcuts |= {"by_rule": by_rule}


def transposes(s, out, x, *, permutation):
    """A transpose that moves nothing, or of a transpose."""
    if permutation == tuple(range(len(permutation))):
        return x
    eqn = s.maker(x, prim.transpose_p)
    if eqn:
        inner = eqn.params["permutation"]
        both = tuple(inner[p] for p in permutation)
        return s.apply(prim.transpose_p, eqn.invars[0], permutation=both)


rules |= {prim.transpose_p: [transposes]}


def fold(s, primitive, out, args, params):
    """The value of an equation of constants, or None."""
    if not args or primitive in never_folded or primitive not in eval_rules:
        return None
    if not isinstance(out, ShapedArray):
        return None
    if primitive in elementwise and out.shape:
        scalars = [uniform(s, x) for x in args]
        if all(x is not None for x in scalars):
            return filled(s, compute(primitive, scalars, params), out)
    values = [known_value(s, x) for x in args]
    if out.size > s.settings.small_constant or any(x is None for x in values):
        return None
    return s.constant(ArrayImpl(compute(primitive, values, params), out), out)


shortcuts |= {"fold": fold}


def neutral_mul(s, out, x, y):
    """x * 1; x * 0 only of integers, as inf * 0 is NaN and -1.0 * 0 is -0.0."""
    for a, b in ((x, y), (y, x)):
        if real(out.dtype) and holds(s, b, 1):
            return a
        if exact(out.dtype) and holds(s, b, 0):
            return filled(s, 0, out)


def neutral_add(s, out, x, y):
    """x + 0 of integers; of floats only x + -0.0, which keeps -0.0 as it is."""
    zero = 0 if exact(out.dtype) else -0.0
    for a, b in ((x, y), (y, x)):
        if real(out.dtype) and holds(s, b, zero):
            return a


def signs_in_sum(s, out, x, y):
    """x + -y is x - y."""
    negated = s.maker(y, prim.neg_p)
    if negated and real(out.dtype):
        return s.apply(prim.sub_p, x, negated.invars[0])


rules |= {prim.mul_p: [neutral_mul], prim.add_p: [neutral_add, signs_in_sum]}


def cancel_in_difference(s, out, x, y):
    """x - x is 0, and (a + y) - y is a."""
    if x is y:
        return filled(s, 0, out)
    total = s.maker(x, prim.add_p)
    if total and y in total.invars:
        return total.invars[1 - total.invars.index(y)]


fast_rules |= {prim.sub_p: [cancel_in_difference]}


def to_inline(eqn, calls):
    """The function that an equation calls, if its body is to take its place."""
    if eqn.primitive in inline_rules:
        return inline_rules[eqn.primitive](**eqn.params)
    if eqn.primitive is not jit_p or any(stays(eqn) for stays in stay_calls):
        return None
    closed = eqn.params["jaxpr"]
    most = config.fusion.small_function
    small = len(closed.jaxpr.eqns) <= most
    if calls.counts.get(closed.jaxpr, 1) == 1 or small:
        return closed
    simpler = simplify_function(closed, calls)
    return simpler if len(simpler.jaxpr.eqns) <= most else None


# chapter 14, brought along

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


def frame(s, closed, args, targets):
    """A frame for a jaxpr applied to atoms."""
    jaxpr = closed.jaxpr
    env = dict(zip(jaxpr.invars, args, strict=True))
    consts = zip(jaxpr.constvars, closed.consts, strict=True)
    env |= {v: s.constant(value, v.aval) for v, value in consts}
    return Frame(iter(jaxpr.eqns), env, jaxpr.outvars, targets)


def run(s, closed, args, calls):
    """Put the equations of a jaxpr through; inlined calls have their own frames.

    Returns: the atoms of its results.
    """
    stack = [frame(s, closed, args, ())]
    while True:
        top = stack[-1]
        eqn = next(top.eqns, None)
        if eqn is None:
            stack.pop()
            results = [top.read(v) for v in top.outvars]
            if not stack:
                return results
            stack[-1].env.update(zip(top.targets, results, strict=True))
            continue
        args = [top.read(v) for v in eqn.invars]
        callee = to_inline(eqn, calls)
        if callee is not None:
            stack.append(frame(s, callee, args, eqn.outvars))
        else:
            results = equation(s, eqn, args, calls)
            top.env.update(zip(eqn.outvars, results, strict=True))


def equation(s, eqn, args, calls):
    """The atoms for the results of one equation, which may add others before."""
    s.source = eqn.source
    params = {k: simplify_param(v, calls) for k, v in eqn.params.items()}
    avals = [v.aval for v in eqn.outvars]
    rule = loop_rules.get(eqn.primitive)
    atoms = rule and rule(s, args, params, avals)
    return atoms or s.emit(eqn.primitive, args, params, avals)


def simplify_param(value, calls):
    """A parameter with the functions in it simplified."""
    if isinstance(value, ClosedJaxpr):
        return simplify_function(value, calls)
    if isinstance(value, tuple) and any(isinstance(v, ClosedJaxpr) for v in value):
        return tuple(simplify_param(v, calls) for v in value)
    return value


def simplify_function(closed, calls):
    """`simplify` one jaxpr, once for all equations that have it as a param."""
    if closed not in calls.done:
        s = Simplifier(calls.fast_math)
        simpler = s.finish(closed, run(s, closed, closed.jaxpr.invars, calls))
        calls.done.update({closed: simpler, simpler: simpler})
        calls.counts[simpler.jaxpr] = calls.counts.get(closed.jaxpr, 1)
    return calls.done[closed]


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
    return simplify_function(closed, Calls(count_calls(closed.jaxpr), {}, fast))
