"""Operations outside a trace that were done before, with arrays of the same types.

    jnp.sin(x); jnp.sin(y)      # of one type: the second only calls NumPy

To evaluate a primitive is to look at its arguments, to ask its shape rule what comes
out, and to see that NumPy gave just that.  All but the numbers depends on the types
alone.  So what was found out is kept as a *plan*, under the primitive, the arguments'
types and the params: NumPy's function, and the type of its result.

Types are known by which objects they are, as `known_aval` gives them out, since that
takes no comparison: the arrays of a program pass one object on from result to argument.
Whatever has no plan goes the long way, which knows all cases and all errors.
"""

import operator
from functools import partial
from typing import Any

import numpy as np

from .array import ArrayImpl, ShapedArray, eval_on_numpy, known_aval, result_avals
from .base.config import config
from .core import eval_rules, prepared
from .dtypes import bfloat16
from .numpy_values import quiet
from .primitives import as_array
from .remembered import is_plain

# (primitive, the key of the flags, the ids of the types, params) -> (eval rule, NumPy's
# function, dtype and type of the result; the types of results and arguments, whose ids
# stay theirs as long as they live).  Of several results: a program, None, None.
plans: dict = {}
LIMIT = 4096
# What takes the place of NumPy's function where an array has so many elements, if there
# is something: of (primitive, types of the arguments, params, NumPy's function).  Where
# there are several results, it takes arrays, gives a list of them, and may be None.
LARGE = 1 << 12
programs: dict = {}
# Primitives that NumPy does one by one for a batch: function of an argument's type: how
# many elements take as long.
worth: dict = {}
overrides = config.overrides
types_of = operator.attrgetter("aval")


def planned(primitive, args, params):
    """The results of an operation that has a plan, as a list; of another one None."""
    flags = config.plain_key
    if flags is None or overrides.values:
        return None
    try:
        key = (primitive, flags, *map(id, map(types_of, args)), *params.items())
        if params:  # 2 is not 2.0 here.
            key += (*map(type, params.values()),)
        plan = plans.get(key)
    except AttributeError:  # A number, or NumPy's array, as indices are.
        if not any(type(x) is np.ndarray for x in args):
            return None
        args = [as_array(x) if type(x) is np.ndarray else x for x in args]
        return planned(primitive, args, params)
    except TypeError:  # No hash.
        return None
    if plan is None:
        return make_plan(primitive, flags, args, params)
    values = []
    for x in args:
        if type(x) is not ArrayImpl or (value := x._value) is None:
            return None
        values.append(value)
    rule, function, dtype, aval, _ = plan
    if eval_rules.get(primitive) is not rule:
        return None
    if primitive.multiple_results:
        return function(*args)
    value = np.asarray(quiet.copy().run(function, *values, **params), dtype, "C")
    value.setflags(write=False)
    result: Any = object.__new__(ArrayImpl)
    result._value, result.aval = value, aval
    return [result]


def make_plan(primitive, flags, args, params):
    """The results by the plan for types that are equal to those of `args`, or None.

    If there is none, the next operation of this kind will have one.  The long way,
    which this one goes if its arrays are small, checks what NumPy gives.
    """
    if numpy_function(eval_rules.get(primitive)) is None:
        return None
    if not is_plain((*params.values(),)) or not all(map(is_of_numpy, args)):
        return None
    if config.values.get("default_device"):
        return None
    if primitive.multiple_results and not is_large(primitive, map(types_of, args)):
        return None
    for x in args:
        x.aval = known_aval(x.aval.shape, x.aval.dtype, x.aval.weak_type)
    avals = tuple(map(types_of, args))
    key = (primitive, flags, *map(id, avals), *params.items())
    key += (*map(type, params.values()),)
    if key in plans:
        return planned(primitive, args, params)
    plan = plan_for(primitive, avals, params)
    if plan is None:
        return None
    if len(plans) >= LIMIT:
        plans.clear()
    plans[key] = plan
    # The first large operation has the digits of the next ones.
    return planned(primitive, args, params) if is_large(primitive, plan[-1]) else None


def plan_for(primitive, avals, params):
    """How an operation on arrays of these types is computed, or None."""
    rule = eval_rules.get(primitive)
    function = numpy_function(rule)
    if function is None or not all(map(has_numpy_dtype, avals)):
        return None
    try:
        results = result_avals(primitive, avals, params)
    except (TypeError, ValueError):  # The long way says it, with the line.
        return None
    if not all(map(has_numpy_dtype, results)):
        return None
    types = *results, *avals
    if primitive.multiple_results:
        large = is_large(primitive, types)
        run = programs["large"](primitive, avals, params, None) if large else None
        return run and (rule, run, None, None, types)
    aval, = results
    aval = known_aval(aval.shape, aval.dtype, aval.weak_type)
    function = for_types(function, avals, params, aval.dtype)
    if is_large(primitive, types):
        function = programs["large"](primitive, avals, params, function)
    return rule, function, aval.dtype, aval, types


def size_of(aval):
    """For how many floats of 32 bits NumPy takes as long: halves it converts twice."""
    is_half = aval.dtype.itemsize == 2 and aval.dtype.kind in "fV"
    return 8 * aval.size if is_half else aval.size


def is_large(primitive, avals):
    """Whether an operation on arrays of these types is worth a program."""
    size = worth.get(primitive, size_of)
    return bool(programs) and max(map(size, avals), default=0) >= LARGE


def numpy_function(rule):
    """The function behind an eval rule that `on_numpy` made; None of other rules."""
    rule = getattr(rule, "on_arrays", rule)
    made = type(rule) is partial and rule.args[:1] == (eval_on_numpy,)
    return rule.args[2] if made else None


def for_types(function, avals, params, dtype):
    """A function of NumPy for arguments of some types, without needless tests."""
    of_types = getattr(function, "of_types", None)
    if of_types is None:
        return function
    special = of_types(avals, params)
    if any(a.dtype.itemsize <= 2 for a in avals):
        # What was computed in 32 bits is rounded here, where no warning is heard.
        return lambda *xs, **params: np.asarray(special(*xs, **params), dtype)
    return special


def is_of_numpy(x):
    """Whether `x` is a plain array, of a dtype that NumPy computes in."""
    return type(x) is ArrayImpl and has_numpy_dtype(x.aval)


def has_numpy_dtype(aval):
    known = type(aval) is ShapedArray and isinstance(aval.dtype, np.dtype)
    return known and (aval.dtype.kind in "biufc" or aval.dtype == bfloat16)


prepared.append(planned)
