"""What is known of a value while a program is simplified: all of it, or one scalar.

    known_value(s, atom)      # the NumPy value of a constant of few elements, or None
    uniform(s, atom)          # the scalar of which all elements are copies, or None
    compute(add_p, [x, y], {})    # x + y, of NumPy values

`s` is the `Simplifier` that writes the program: it knows the values of constants, and
which equation made a variable.
"""


from ...trace import primitives as prim
from ...trace.array import to_numpy, wrap
from ...trace.core import BottomTrace, Tracer, eval_rules, find_rule, set_trace
from ...trace.jaxprs.jaxpr import Literal

# These make large results out of little: better made where they are used than loaded.
never_folded = {prim.iota_p, prim.broadcast_in_dim_p}


def known_value(s, atom):
    """The NumPy value of a constant of few elements, or None."""
    if isinstance(atom, Literal):
        return atom.val
    if atom.aval.size > s.settings.small_constant:
        return None
    eqn = s.makers.get(atom)
    if eqn is not None and eqn.primitive in never_folded:
        inputs = [known_value(s, x) for x in eqn.invars]
        known = not any(x is None for x in inputs)
        return compute(eqn.primitive, inputs, eqn.params) if known else None
    value = s.values.get(atom)
    # As an array of the atom's type: NumPy's own integers have 64 bits.
    return None if isinstance(value, Tracer | None) else to_numpy(value, atom.aval)


def compute(primitive, values, params):
    """The NumPy value of a primitive applied to NumPy values."""
    rule = find_rule(eval_rules, primitive, "eval")
    with set_trace(BottomTrace()):
        return rule(*map(wrap, values), **params).numpy()


def uniform(s, atom):
    """The scalar of which every element of an atom is a copy, or None."""
    eqn = s.maker(atom, prim.broadcast_in_dim_p)
    if eqn is not None and isinstance(eqn.invars[0], Literal):
        return eqn.invars[0].val
    value = known_value(s, atom)
    if value is None or value.size == 0:
        return None
    first = value.reshape(-1)[:1]
    same = first.tobytes() * value.size == value.tobytes()
    return first.reshape(()) if same else None
