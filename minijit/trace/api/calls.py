"""What a user called, and with what: errors of public functions say it.

    jnp.sum(x, axis=7)
    # ValueError: axis 7 is out of bounds for array of dimension 2
    #   jnp.sum was given a=f32[3,4], axis=7
    #   at program.py:3 (main)
    jnp.tri("a")
    # TypeError: jnp.tri: the argument N must be an integer, got 'a' of type str

Nothing is checked while all goes well: `explaining` looks at the arguments once
something has failed.  An error that minijit raised on purpose is given the call it came
of.  One that Python or NumPy raised somewhere below ("'<' not supported between ...")
becomes a TypeError that names the argument at fault, where there is one: its
annotation, or its name in `kinds`, says what an argument of a public function may be.
"""

from __future__ import annotations

import dis
import enum
import functools
import inspect
import math
import operator
import os
import sys
import types
from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..array import ArrayImpl, aval_of
from ..base import names as _names
from ..base.demand import add_rows
from ..base.errors import PACKAGE, at_line, left_out, text_of, user_source
from ..base.frames import in_library, leave_out_frames
from ..core import Array, BottomTrace, Tracer, current
from ..plans import LARGE
from ..primitives import as_array
from ..types import Args, Result
from .examples import examples, with_example

left_out["wrappers"] += (__file__,)

# The folders of minijit that do not call its public functions, but those of a user.
ROOMS = tuple(
    os.path.join(PACKAGE, name)
    for name in ("trace", "transform", "compile", "run", "ops")
)


def explaining(function, label, results=False, made_by=None):
    """`function`, which users know as `label`: its errors tell what it was given.

    Args:
      results: whether it makes functions, which are to explain their errors as well.
      made_by: how it was made, if by such a one: (function, label, args, kwargs).
    """
    # What another function made, such as `vmap(f)`, runs the user's code.
    composed, ours = None, made_by is None

    @functools.wraps(function)
    def call(*args, **kwargs):
        nonlocal composed
        where = None
        if "out_sharding" in kwargs:
            add_rows(__name__.partition(".")[2])
            where = kwargs.pop("out_sharding") if label in placed else None
        try:
            if kwargs and hasattr(call, "nin"):
                kwargs = of_ufunc(label, **kwargs)
            # Looked up without a call: this is on the way of each operation.
            asked = composed is not None and composed.is_composed
            if not asked:
                most, is_large = 0, False
                for x in (*args, *kwargs.values()) if kwargs else args:
                    if type(x) is ArrayImpl and x._value is not None:
                        most = x._value.size if x._value.size > most else most
                    elif type(x) is tuple:
                        is_large = is_large or is_large_shape(x)
                trace = current.trace
                asked = is_large or most >= LARGE
                if type(trace) is not BottomTrace and composed_calls:
                    asked = asked or composed_calls["recorded by"](trace) is None
                if asked and composed is None and ours and composed_calls:
                    composed = composed_calls["when repeated"](function, call, label)
            if asked and composed is not None:
                result = composed(args, kwargs)
            else:
                before = bottom.steps
                result = function(*args, **kwargs)
                if type(result) is ArrayImpl and result._value.size > most:
                    most = result._value.size
                work = (bottom.steps - before) * (1 + most // ELEMENTS)
                if work and composed is None and ours and composed_calls:
                    composed = composed_calls["when repeated"](function, call, label)
                elif work >= MANY and composed is not None:
                    composed.is_composed = True
            if where is not None:
                result = placed[label](result, where)
        except Exception as error:
            caller, clear = sys._getframe(1), None
            if called_by_user(caller) and is_ours(error):
                clear = explained(error, function, label, args, kwargs, made_by)
            if clear is None:
                leave_out_frames(error, caller)
                raise
            try:
                raise clear from error
            except type(clear):
                leave_out_frames(clear, caller)
                raise
        if results and isinstance(result, (types.FunctionType, functools.partial)):
            if called_by_user(sys._getframe(1)):
                made = function, label, args, kwargs
                return explaining(result, f"the result of {label}", made_by=made)
        return result

    if not hasattr(function, "__name__"):  # One of functools.partial has none.
        call.__name__ = call.__qualname__ = label.rpartition(".")[2]
    call.__doc__ = with_example(call.__doc__, label)
    wrappers.add(call.__code__)  # type: ignore[attr-defined]
    return call


def of_ufunc(label, out=None, where=None, **named):
    """What else a function that is a ufunc in NumPy was given by name."""
    for option, value in {"out": out, "where": where}.items():
        if value is not None:
            raise NotImplementedError(
                f"The {option!r} argument to {label} is not supported."
            )
    return named


def is_large_shape(x):
    """Whether a tuple could be the shape of a large array."""
    return math.prod(n for n in x if type(n) is int) >= LARGE


# With how many primitives a call is always looked up, be there ever so many kinds, and
# with how many elements a primitive counts as one more.  If there is something: what
# calls a function that evaluates primitives, of (function, its wrapper, label) a
# function of (args, kwargs); and which trace around a trace records.
MANY, ELEMENTS = 2, 4000
composed_calls: dict = {}
# The code of what only passes a call on.
passing: set = set()
bottom = current.bottom

# Functions that take `out_sharding`, by label: what places (result, out_sharding).
placed: dict = {}

# The code of functions that only stand before one of the library's own.
wrappers: set = set()


def underlying(function):
    """The library's own function that a public one stands for; others are themselves.

    Not `inspect.unwrap`: a user's function may well wrap `lax.add` and mean more.
    """
    while getattr(function, "__code__", None) in wrappers:
        function = function.__wrapped__
    return function


def strict(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """`function` as JAX's users know it: a Python number has a dtype of its own.

    The library's rules let their numbers adapt to whatever array stands beside them;
    of a user `lax.add(x, 0.5)` is an error unless x is of the default float type.
    """

    @functools.wraps(function)
    def strict_function(*args, **kwargs):
        named = {name: of_own_dtype(x) for name, x in kwargs.items()}
        return function(*map(of_own_dtype, args), **named)

    wrappers.add(strict_function.__code__)  # type: ignore[attr-defined]
    return strict_function


def of_own_dtype(x):
    """A Python number as an array, weakly typed; anything else as it is."""
    return as_array(x) if type(x) in dtypes.weak_types else x


def check_arguments(function, label, args, kwargs):
    """Raise TypeError if an argument is not what its name asks for."""
    wrong = error_at_fault(label, bound(function, args, kwargs))
    if wrong is not None:
        raise wrong


def explain_calls(label, namespace, names=None, besides=(), results=()):
    """Let the functions in a namespace explain their errors.

    One that stands in several namespaces stays one function.

    Args:
      label: what stands before the name of each: "jnp", "lax".
      namespace: a dict.
      names: which of them; None stands for all that do not begin with an underscore.
      besides: but not these.
      results: those that make functions, which are to explain their errors as well.
    """
    for name in list(namespace) if names is None else names:
        function = namespace[name]
        if name.startswith("_") or name in besides:
            continue
        if not isinstance(function, (types.FunctionType, functools.partial)):
            if isinstance(function, type):
                known_as = f"{label}.{name}"
                if known_as in examples:
                    function.__doc__ = with_example(function.__doc__, known_as)
                continue
            if isinstance(function, types.ModuleType):
                continue
            if not hasattr(type(function), "defjvp"):
                continue
        if id(function) not in explaining_calls:
            own = getattr(function, "__name__", name)
            shown = own if namespace.get(own) is function else name
            call = explaining(function, f"{label}.{shown}", name in results)
            explaining_calls[id(function)] = explaining_calls[id(call)] = call
        namespace[name] = explaining_calls[id(function)]


def publish(namespace, names=None, results=()):
    """End a module for users, as `names.publish` does; its functions explain errors."""
    _names.publish(namespace, names)
    label = _names.public_name(namespace["__name__"]).partition(".")[2]
    explain_calls(label, namespace, namespace["__all__"], results=results)


def explain_methods(label, cls, names=None):
    """Let methods of a class, by default all public ones, explain their errors."""
    for name in [n for n in vars(cls) if n[0] != "_"] if names is None else names:
        function, known_as = vars(cls)[name], f"{label}.{name}"
        if isinstance(function, types.FunctionType):
            setattr(cls, name, explaining(function, known_as))
        elif isinstance(function, classmethod):
            setattr(cls, name, classmethod(explaining(function.__func__, known_as)))


def explain_made(cls, maker, label):
    """Let functions explain their errors that `maker` makes: a class is called."""
    made_by = maker, label, (), {}
    cls.__call__ = explaining(cls.__call__, f"the result of {label}", made_by=made_by)


# The id of a function, or of a call that explains itself, -> the latter.  Both live as
# long as the modules that hold them.
explaining_calls = {}


def called_by_user(frame):
    """Whether a call in `frame` is none of a public function in another's body."""
    file = frame.f_code.co_filename
    return not file.startswith(PACKAGE) or file.startswith(ROOMS)


def is_ours(error):
    """Whether an error came from below a call, not from what the user passed in.

    One that a function of the user's raised, or that says already of which call it
    came, is left alone.
    """
    tb = error.__traceback__.tb_next
    while tb is not None and tb.tb_frame.f_code in passing:
        tb = tb.tb_next
    if tb is None or hasattr(error, "explained"):
        return False
    while tb is not None:
        if not in_library(tb.tb_frame.f_code.co_filename):
            return False
        tb = tb.tb_next
    return True


def on_purpose(error):
    """Whether an error stems from a `raise` statement of minijit's."""
    tb = error.__traceback__
    while tb.tb_next is not None:
        tb = tb.tb_next
    code = tb.tb_frame.f_code
    instruction = dis.opname[code.co_code[tb.tb_lasti]]
    return code.co_filename.startswith(PACKAGE) and instruction in raising


raising = ("RAISE_VARARGS", "RERAISE")


def explained(error, function, label, args, kwargs, made_by=None):
    """Say in `error` which call it came of, or give one to be raised in its place."""
    arguments = bound(function, args, kwargs)
    source = user_source()
    shown = [(name, x) for name, _, x in arguments if name not in own]
    given = ", ".join(f"{name}={describe(x)}" for name, x in shown)
    call = f"\n  {label} was given {given}" if given else f"\n  in {label}()"
    clear = None
    if isinstance(error, unclear) and (
        isinstance(error, (AttributeError, KeyError)) or not on_purpose(error)
    ):
        maker, maker_label, *given_before = made_by or (function, label, args, kwargs)
        before = bound(maker, *given_before)
        clear = error_at_fault(maker_label, before) or error_at_fault(label, arguments)
    named = clear or error
    if len(named.args) == 1 and isinstance(named.args[0], str):
        text = named.args[0]
        line = "" if "\n  at " in text else at_line(source)
        if isinstance(named, KeyError):  # Python shows its text as a literal.
            named.add_note(f"{call}{line}".strip("\n"))
        else:
            named.args = (f"{text}{call}{line}",)
    named.explained = label
    return clear


# What methods are called with, and users do not write.
own = "self", "cls", "residuals"

# What Python and NumPy raise where an operation does not suit a value.
unclear = (
    TypeError,
    ValueError,
    LookupError,
    AttributeError,
    ArithmeticError,
    BufferError,
)


def bound(function, args, kwargs):
    """[(name, its `inspect.Parameter`, value), ...] for what was given."""
    try:
        signature = signature_of(function)
        given = signature.bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        pairs = [*((f"args[{i}]", x) for i, x in enumerate(args)), *kwargs.items()]
        return [(name, unknown, x) for name, x in pairs]
    found = []
    for name, value in given.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            found += [(name, parameter, x) for x in value]
        elif parameter.kind is parameter.VAR_KEYWORD:
            found += [(key, parameter, x) for key, x in value.items()]
        else:
            found.append((name, parameter, value))
    return found


# That of an argument of which no signature says anything.
unknown = inspect.Parameter("unknown", inspect.Parameter.KEYWORD_ONLY)


@functools.lru_cache(maxsize=256)
def signature_of(function):
    """The signature of a function; those of the public ones are asked for often."""
    return inspect.signature(function)


def error_at_fault(label, arguments):
    """The TypeError for the first argument that is not what its name asks for."""
    for name, parameter, value in arguments:
        expected = expected_of(label, name, parameter.annotation)
        if value is parameter.default or any(kinds[k][0](value) for k in expected):
            continue
        if expected:
            return TypeError(
                f"{label}: the argument {name} must be {' or '.join(expected)}, got "
                f"{describe(value)} of type {type(value).__name__}"
            )
    return None


def expected_of(label, name, annotation):
    """The kinds that an argument may be of; none where nothing says it."""
    text = str(annotation).removesuffix(" | None")
    kind = kind_annotated.get("Callable" if text.startswith("Callable[") else text)
    for key in (f"{label}.{name}", f"{label.split('.')[-1]}.{name}"):
        if key in kinds_of:
            return kinds_of[key]
    return kinds_of.get(name, []) if kind is None else [kind]


def describe(x, depth=2):
    """An argument in a few words: a type for an array, a text for all else."""
    if isinstance(x, Tracer):
        return f"a traced {x.aval}"
    if isinstance(x, (Array, np.ndarray)):
        if isinstance(x, Array):
            return str(x.aval)
        return f"a NumPy array of shape {x.shape} and dtype {x.dtype}"
    if isinstance(x, dict) and depth:
        parts = [f"{k!r}: {describe(v, depth - 1)}" for k, v in list(x.items())[:4]]
        return f"{{{', '.join(parts + ['...'] * (len(x) > 4))}}}"
    if type(x) in (list, tuple) and depth:
        parts = [describe(part, depth - 1) for part in x[:6]]
        text = ", ".join(parts + [f"... ({len(x)} in all)"] * (len(x) > 6))
        comma = "," * (type(x) is tuple and len(x) == 1)
        return f"[{text}]" if type(x) is list else f"({text}{comma})"
    if isinstance(x, (types.FunctionType, types.BuiltinFunctionType, type)):
        return x.__name__
    if type(x).__repr__ is object.__repr__:
        return f"a {type(x).__name__}"
    text = " ".join(text_of(x).split())
    return text if len(text) <= 60 else text[:57] + "..."


def is_integer(x):
    """Whether Python takes x for an int; a traced value is complained of elsewhere."""
    if isinstance(x, Tracer) or hasattr(x, "is_size"):
        return True
    return hasattr(x, "__index__") and fits(operator.index, x)


def are_integers(x):
    """An integer, or a sequence of integers."""
    return is_integer(x) or is_sequence(x) and all(map(is_integer, x))


def are_several_integers(x):
    return is_sequence(x) and are_integers(x)


def are_nested_integers(x):
    """An integer, or a sequence of integers, or of such sequences."""
    return is_integer(x) or is_sequence(x) and all(map(are_nested_integers, x))


def are_pairs(x):
    """A sequence of pairs of integers, or the name of a padding."""
    pairs = is_sequence(x) and all(is_sequence(pair) for pair in x)
    return isinstance(x, str) or pairs and are_nested_integers(x)


def is_sequence(x):
    """A list, a tuple, or an array with axes."""
    if isinstance(x, (np.ndarray, Array)):
        return x.ndim > 0
    return isinstance(x, (list, tuple, range))


def is_array(x):
    """An array or a number, of a dtype that arrays may have."""
    if x is None or isinstance(x, (str, bytes, list, tuple)) or hasattr(x, "mask"):
        return False
    return hasattr(x, "__jax_array__") or fits(aval_of, x) and fits(dtypes.dtype, x)


def are_nested_arrays(x):
    """An array, or what becomes one: lists of numbers."""
    if isinstance(x, (list, tuple)):
        return all(map(are_nested_arrays, x)) and fits(np.shape, x)
    return is_array(x)


def is_number(x):
    """A number, or an array without axes."""
    return is_array(x) and np.ndim(x) == 0


def is_dtype(x):
    """What stands for a dtype that arrays may have."""
    if isinstance(x, dtypes.ExtendedDtype):
        return True
    return x is not None and fits(lambda: dtypes.check_dtype(np.dtype(x), "it"))


def are_names(x):
    """A string, or a sequence of strings."""
    several = isinstance(x, (list, tuple, set, frozenset))
    return all(isinstance(name, str) for name in (x if several else (x,)))


def is_name(x):
    return x is None or isinstance(x, (str, enum.Enum))


def is_truth(x):
    """Whether x stands for True or False; a traced one is complained of elsewhere."""
    return isinstance(x, Tracer) or fits(bool, x)


def are_truths(x):
    """True, False, or one of them for each axis."""
    several = isinstance(x, (list, tuple))
    return all(map(is_truth, x)) if several else isinstance(x, (bool, int, np.bool_))


def are_contractions(x):
    """A pair of pairs of sequences of integers."""
    pairs = are_all(are_all(are_several_integers))(x)
    return pairs and len(x) == 2 and all(len(pair) == 2 for pair in x)


def is_record(x):
    """A named tuple of sequences of integers."""
    return hasattr(x, "_fields") and all(map(are_several_integers, x))


def are_all(check):
    """Whether x is a list or a tuple, and the check holds for each of its items."""
    return lambda x: isinstance(x, (list, tuple)) and all(map(check, x))


def fits(function, *args):
    """Whether a function takes these arguments."""
    try:
        function(*args)
    except Exception:
        return False
    return True


# What an argument may be: the check, and the names of the arguments of that kind, where
# annotations do not say it.  With a function's name before it ("argmax.axis") it is of
# this kind in that function only.
kinds = {
    "an integer": (is_integer, """
        n m k M num size max_squarings blocksize restart unroll local_window_size
        max_traces d cumsum.axis cumprod.axis cummax.axis cummin.axis
        cumlogsumexp.axis one_hot.axis trapezoid.axis num_segments bucket_size
        permutation_size eye.k
    """),
    "an integer or integers": (are_integers, """
        axis axes shape shift shapes in_axis out_axis batch_axis static_argnums
        donate_argnums reduce_axes
    """),
    "integers, or sequences of them": (
        are_nested_integers,
        "tensordot.axes dimension_numbers",
    ),
    "a name, or a pair of integers for each axis": (are_pairs, "padding"),
    "an array or a number": (is_array, """
        x y a b x1 x2 operand val M A f values weights condition fill_value mean q p
        left right key value alpha data init_value index element obj m which cov
        scale df loc lower beta start dx atol ddof correction init_values bins args
        xi indices_or_sections segment_ids taus c pivots r_matrix w_vector dl du
        tridiagonal_solve.d generalized_normal.p
    """),
    "an array with an axis or more": (lambda x: is_array(x) and np.ndim(x) > 0, """
        polyadd.a1 polyadd.a2 polysub.a1 polysub.a2 polymul.a1 polymul.a2 polydiv.u
        polydiv.v polyder.p polyint.p polyval.p glu.x histogramdd.sample cross.x1
        cross.x2 vecdot.x1 vecdot.x2 cov.fweights cov.aweights searchsorted.sorter
    """),
    "an array, or lists of numbers": (are_nested_arrays, """
        array.object asarray.a array_equal.a1 array_equal.a2 array_equiv.a1
        array_equiv.a2 isrealobj.x iscomplexobj.x copy.a block.arrays
    """),
    "a number": (is_number, """
        kaiser.beta standardize.epsilon variance_scaling.scale normal.stddev
        uniform.scale truncated_normal.stddev orthogonal.scale
        delta_orthogonal.scale full.fill_value dot_product_attention.scale
        fori_loop.lower fori_loop.upper qdwh.eps key.seed PRNGKey.seed
    """),
    "a sequence of arrays": (
        lambda x: is_sequence(x) and all(map(is_array, x)),
        "operands range",
    ),
    "a dtype": (is_dtype, "dtype"),
    "a function": (callable, "fun func f callback flatten_func"),
    "a sequence of functions": (are_all(callable), "branches"),
    "a sequence": (
        lambda x: fits(iter, x),
        "leaves build_tree.xs iterable path excluded",
    ),
    "an integer, and no bool": (
        lambda x: is_integer(x) and not isinstance(x, bool),
        "item.args",
    ),
    "a string": (
        lambda x: isinstance(x, str),
        "fmt seq einsum.subscripts einsum_path.subscripts fromstring.string",
    ),
    "integers, or a pair of them for each axis": (
        lambda x: are_nested_integers(x) and fits(np.shape, x),
        "pad_width",
    ),
    "a number, or the name of a norm": (lambda x: is_name(x) or is_number(x), "ord"),
    "a hashable name": (lambda x: fits(hash, x), "axis_name"),
    "a list": (lambda x: isinstance(x, (list, tuple)), "funclist"),
    "a pair": (
        lambda x: isinstance(x, (list, tuple)) and len(x) == 2,
        "cho_solve.c_and_lower",
    ),
    "a sequence of (low, high, interior)": (
        are_all(are_several_integers),
        "padding_config",
    ),
    "a sequence of integers": (are_several_integers, """
        ravel_multi_index.dims squeeze.dimensions expand_dims.dimensions
        indices.dimensions apply_over_axes.axes lax.tile.reps permute_dims.axes
        transpose.axes fftn.s ifftn.s rfftn.s irfftn.s fft2.s ifft2.s rfft2.s
        irfft2.s fftn.axes ifftn.axes rfftn.axes irfftn.axes fft2.axes ifft2.axes
        rfft2.axes irfft2.axes conv_general_dilated_patches.filter_shape
        padtype_to_pads.in_shape padtype_to_pads.window_shape
        padtype_to_pads.window_strides
    """),
    "three names of axes, as ('NCHW', 'OIHW', 'NCHW')": (
        lambda x: are_all(is_name)(x) and len(x) == 3,
        "conv_general_permutations.dimension_numbers",
    ),
    "((lhs_contract, rhs_contract), (lhs_batch, rhs_batch))": (
        are_contractions,
        "dot_general.dimension_numbers lax.dot.dimension_numbers",
    ),
    "a dtype or a Python type": (is_dtype, "promote_types.a promote_types.b"),
    "a GatherDimensionNumbers": (is_record, "gather.dimension_numbers"),
    "a ScatterDimensionNumbers": (is_record, """
        scatter.dimension_numbers scatter_add.dimension_numbers
        scatter_sub.dimension_numbers scatter_mul.dimension_numbers
        scatter_min.dimension_numbers scatter_max.dimension_numbers
    """),
    "an object with a buffer": (lambda x: fits(memoryview, x), "buffer"),
    "a RoundingMethod": (
        lambda x: fits([0, 1, 2].index, getattr(x, "value", x)),
        "rounding_method",
    ),
    "'no', 'equiv', 'safe', 'same_kind' or 'unsafe'": (
        lambda x: fits(["no", "equiv", "safe", "same_kind", "unsafe"].index, x),
        "can_cast.casting",
    ),
    "True or False, or one of them for each axis": (
        are_truths,
        "allow_negative_indices",
    ),
    "a name": (is_name, """
        mode method side order name kind algorithm implementation while_loop.reverse
        signature backend norm
    """),
    "a name or names": (are_names, "static_argnames donate_argnames"),
    "a lax.Precision, its name, or a pair of them": (
        lambda x: are_all(is_name)(x) or is_name(x), "precision"
    ),
    "a PyTreeDef": (lambda x: hasattr(x, "unflatten"), "treedef"),
    "a sequence of PyTreeDefs": (
        are_all(lambda x: hasattr(x, "unflatten")),
        "treedefs",
    ),
    "True or False": (is_truth, """
        keepdims reverse ordered unique_indices indices_are_sorted right
        symbolic_zeros inline keep_unused return_weak_type_flag
    """),
    "a tree of arrays": (lambda x: True, "cond.operand switch.operand"),
}

# The same by annotations, of which those of optional arguments end with " | None".
annotated = {
    "an array or a number": ("ArrayLike", "Array"),
    "True or False": ("bool",),
    "an integer": ("int",),
    "an integer or integers": (
        *("Axis", "Shape", "Argnums", "Sequence[int]"),
        *("int | Shape", "int | Sequence[int]"),
    ),
    "a dtype": ("DTypeLike",),
    "a name": ("str",),
    "a sequence of arrays": ("Sequence[ArrayLike]", "Array | Sequence[ArrayLike]"),
    "a PyTreeDef": ("PyTreeDef",),
    "a function": ("Callable",),
}
kinds_of: dict[str, list[str]] = {}
for kind, (_, names) in kinds.items():
    for name in names.split():
        kinds_of.setdefault(name, []).append(kind)
kind_annotated = {name: kind for kind, names in annotated.items() for name in names}
