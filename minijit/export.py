"""Programs for other machines: a function as StableHLO, which XLA compiles and runs.

    exported = minijit.export(f)(x)           # x: an array, or a ShapeDtypeStruct
    print(exported.mlir_module())             # func.func public @main(%x: ...) ...
    exported.call(x)                          # the same program, run here
    deserialize(exported.serialize())         # and in another process

StableHLO is what JAX, PyTorch and TensorFlow hand to XLA, and what the engines take
that divide a program among many machines.  JAX's function is `jax.export.export`, and
so this module has it under that name too; called itself, the module is the function.
"""

import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from .stablehlo.programs import module_text
from .stablehlo.saved import Program, no_vjp, read, written
from .trace.api import stages
from .trace.arguments import function_name
from .trace.base import names as _names
from .trace.dtypes import short_dtype_name
from .trace.jit.jit import jit, jit_p
from .trace.jit.signature import aval_of_leaf
from .trace.primitives import convert
from .trace.trees.pytree import tree_flatten, tree_leaves, tree_map
from .trace.trees.tools import broadcast_prefix
from .transform.custom.custom_derivatives import custom_vjp
from .transform.derivatives.transpose import vjp
from .transform.tangents import tangent_aval

_names.publish(globals(), """
    Exported SymbolicDim deserialize eval_shape export is_symbolic_dim
    register_namedtuple_serialization register_pytree_node_serialization
    symbolic_args_specs symbolic_shape
""")


class Exported:
    """A function traced for arguments of some types.  JAX: `jax.export.Exported`.

    Attributes:
      fun_name: the function's name.
      in_tree, out_tree: the structures of (args, kwargs) and of the result.
      in_avals, out_avals: the types of their leaves: flat tuples, as JAX has them.
      platforms: for which it was asked; StableHLO is the same for all.
    """

    nr_devices = 1

    def __init__(self, program: Program, run: Callable[..., Any]) -> None:
        self._program, self._run = program, run
        self.fun_name = program.name
        self.in_tree, self.out_tree = program.in_tree, program.out_tree
        self.in_avals, self.out_avals = program.in_avals, program.out_avals
        self.platforms = program.platforms

    def __repr__(self) -> str:
        types = ", ".join(map(type_text, self.in_avals))
        return f"Exported({self.fun_name}: {types})"

    def _closed(self) -> Any:
        if self._program.closed is None:
            raise NotImplementedError(
                f"{self!r} has sizes that are no numbers, and is traced for each call: "
                "export it for numbers"
            )
        return self._program.closed

    def mlir_module(self) -> str:
        """The program as the text of a StableHLO module, with a function @main.

        Its arguments are the leaves of (args, kwargs), and its results those of the
        result.  A key of random numbers is a `ui64`, and a float0 an `i1`.

        Raises:
          NotImplementedError: StableHLO cannot say what an equation does; the message
            has its name, the reason, and the user's line.
        """
        return module_text(self._closed(), self.fun_name)

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """The same program compiled to run here, for arguments of these types only.

        Raises:
          ValueError: the arguments are of other types.
        """
        leaves, tree = tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(
                f"{self.fun_name} was exported for arguments of the structure "
                f"{self.in_tree}, and called with {tree}"
            )
        check_types(self.in_avals, leaves)
        return self._run(*args, **kwargs)

    def has_vjp(self) -> bool:
        """Whether `vjp` has an answer."""
        return self._program.closed is not None and self._program.vjp != no_vjp

    def vjp(self) -> "Exported":
        """The backward pass, exported: (leaves, cotangents) -> cotangents, all flat.

        Arguments and results that are integers have no cotangents.

        Raises:
          ValueError: the bytes that it was read from do not have it.
        """
        if self._program.vjp is not None:
            if not self.has_vjp():
                raise ValueError(
                    f"No VJP is available of {self.fun_name}: serialize(vjp_order=1) "
                    "writes the derivative as well"
                )
            return loaded(self._program.vjp)
        self._closed()
        return export(jit(backward_pass(self)))(
            *map(struct_of, (*self.in_avals, *floats(self.out_avals, self.out_avals)))
        )

    def serialize(self, vjp_order: int = 0) -> bytearray:
        """The program as bytes, for `deserialize`.

        Args:
          vjp_order: how often what is read back can be differentiated.

        Raises:
          NotImplementedError: it calls Python back.
        """
        self._closed()

        def with_derivatives(exported: Exported, order: int) -> Program:
            vjp = with_derivatives(exported.vjp(), order - 1) if order else no_vjp
            return exported._program._replace(vjp=vjp)

        return written(with_derivatives(self, vjp_order))


def deserialize(blob: bytes | bytearray) -> Exported:
    """The `Exported` that `Exported.serialize` wrote.  JAX: `jax.export.deserialize`.

    The bytes are a pickle: read only what comes from where you trust.

    Raises:
      ValueError: they are of something else, or of another version.
    """
    return loaded(read(blob))


def register_pytree_node_serialization(nodetype: type, **how: Any) -> type:
    """The class itself: trees are pickled, and a class by its name.  JAX's says how."""
    del how
    return nodetype


register_namedtuple_serialization = register_pytree_node_serialization


def loaded(program: Program) -> Exported:
    """A program that was written; its derivative is what was written with it."""

    @custom_vjp
    def run(*leaves: Any) -> Any:
        arrays = map(of_type, leaves, program.in_avals)
        return jit_p.bind(*arrays, name=program.name, jaxpr=program.closed)

    def backward(leaves: Any, cotangents: Any) -> Any:
        given = floats(program.out_avals, cotangents)
        found = iter(Exported(program, call).vjp().call(*leaves, *given))
        return tuple(next(found) if is_float(a) else None for a in program.in_avals)

    run.defvjp(lambda *leaves: (run(*leaves), leaves), backward)

    def call(*args: Any, **kwargs: Any) -> Any:
        return program.out_tree.unflatten(run(*tree_leaves((args, kwargs))))

    return Exported(program, call)


def backward_pass(exported: Exported) -> Callable[..., Any]:
    """(leaves, cotangents of floats) -> cotangents of the leaves that are floats."""
    avals = exported.in_avals

    def of_floats(leaves: Any) -> Callable[..., Any]:
        def fun(*given: Any) -> Any:
            remaining = iter(given)
            every = [
                next(remaining) if is_float(a) else x
                for a, x in zip(avals, leaves, strict=True)
            ]
            args, kwargs = exported.in_tree.unflatten(every)
            results = tree_leaves(exported.call(*args, **kwargs))
            return floats(exported.out_avals, results)

        return fun

    def backward(*given: Any) -> Any:
        leaves, cotangents = given[: len(avals)], given[len(avals) :]
        return vjp(of_floats(leaves), *floats(avals, leaves))[1]([*cotangents])

    backward.__name__ = f"{exported.fun_name}_vjp"
    return backward


def is_float(aval: Any) -> bool:
    return tangent_aval(aval) is not None


def floats(avals: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Those of the values whose types have a derivative."""
    return [x for a, x in zip(avals, values, strict=True) if is_float(a)]


def of_type(x: Any, aval: Any) -> Any:
    """A value of the type for which a program was traced: strong or weak."""
    return x if aval_of_leaf(x) == aval else convert(x, aval.dtype, aval.weak_type)


def struct_of(aval: Any) -> stages.ShapeDtypeStruct:
    return stages.ShapeDtypeStruct(aval.shape, aval.dtype, aval.weak_type)


def type_text(aval: Any) -> str:
    return f"{short_dtype_name(aval.dtype)}[{','.join(map(str, aval.shape))}]"


def check_types(avals: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Raise ValueError unless the leaves are of these types, for some sizes."""
    pairs = [(a, aval_of_leaf(x)) for a, x in zip(avals, leaves, strict=True)]
    sizes: dict[str, int] = {}
    for aval, x in pairs:
        for dim, size in zip(aval.shape, x.shape, strict=False):
            if is_symbolic_dim(dim) and dim.name in named:
                sizes.setdefault(dim.name, size)

    def size_now(dim: Any) -> Any:
        return eval(dim.name, dict(sizes)) if is_symbolic_dim(dim) else dim

    for i, (aval, x) in enumerate(pairs):
        if (aval.dtype, (*map(size_now, aval.shape),)) != (x.dtype, tuple(x.shape)):
            raise ValueError(
                f"argument {i} was exported as {type_text(aval)}, and called with "
                f"{type_text(x)}" + (f", where {sizes}" if sizes else "")
            )


def export(
    fun: Callable[..., Any],
    *,
    platforms: Sequence[str] | None = None,
    disabled_checks: Sequence[Any] = (),
) -> Callable[..., Exported]:
    """A function that traces `fun` for arguments: -> `Exported`.

    Args:
      fun: a function of trees of arrays, jitted or not; with static arguments it is
        jitted, so that `jit` knows of them.
      platforms: for `Exported.platforms`: the program is the same for all.
      disabled_checks: for JAX's sake.

    The arguments are arrays, numbers, or `ShapeDtypeStruct`s.  If sizes of these have
    names, the function is traced for each call anew.  JAX: `jax.export.export`, whose
    functions have to be jitted.
    """
    del disabled_checks
    meant = tuple(platforms or ("cpu",))

    def exported(*args: Any, **kwargs: Any) -> Exported:
        leaves, in_tree = tree_flatten((args, kwargs))
        if any(is_symbolic_dim(d) for x in leaves for d in getattr(x, "shape", ())):
            avals = [*map(stages.ShapeDtypeStruct.like, leaves)]
            outs, out_tree = tree_flatten(eval_shape(fun, *args, **kwargs))
            types = in_tree, out_tree, tuple(avals), tuple(outs)
            return Exported(Program(function_name(fun), *types, meant), jitted(fun))
        lowered = jitted(fun).lower(*args, **kwargs)
        types = lowered.in_tree, lowered.out_tree, tuple(lowered.avals)
        outs = tuple(lowered.jaxpr.out_avals)
        program = Program(lowered.fun_name, *types, outs, meant, lowered.jaxpr)
        compiled = functools.cache(lowered.compile)
        return Exported(program, lambda *args, **kwargs: compiled()(*args, **kwargs))

    return exported


def compiler_ir(lowered: Any, dialect: str | None = None) -> str:
    """`Lowered.compiler_ir`: StableHLO text; JAX has an object that prints so.

    Raises ValueError for another dialect.
    """
    if dialect not in (None, "stablehlo"):
        raise ValueError(
            f"unknown dialect: {dialect}. Programs are compiled without XLA, and have "
            'no other text for it than compiler_ir("stablehlo"), which XLA compiles; '
            "lower().compile().as_text() is the loop program that runs here"
        )
    return module_text(lowered.jaxpr, lowered.fun_name)


def jitted(fun: Any) -> Any:
    return fun if hasattr(fun, "lower") else jit(fun)


class SymbolicDim:
    """A size with a name, which stands for two numbers.  Equal if these are.

    Attributes:
      name: a text such as "n".
      sizes: the two numbers, with which `eval_shape` tries a function.
    """

    is_size = True

    def __init__(self, name: str, sizes: tuple[int, int]) -> None:
        self.name, self.sizes = name, sizes

    def __repr__(self) -> str:
        return self.name

    def __index__(self) -> int:
        raise TypeError(
            f"the size {self.name} is no number, and only export.eval_shape takes "
            "names: a program is compiled for sizes that are known"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SymbolicDim) and self.sizes == other.sizes

    def __hash__(self) -> int:
        return hash(self.sizes)


def is_symbolic_dim(dim: Any) -> bool:
    """Whether a size is a name.  JAX: `jax.export.is_symbolic_dim`."""
    return isinstance(dim, SymbolicDim)


# The names there are.  No two have the same numbers.
named: dict[str, SymbolicDim] = {}


def both_values(text: str) -> Iterator[Any]:
    """What an expression of names is for their first and for their second numbers."""
    names = re.findall(r"[A-Za-z_]\w*", text)
    for name in names:
        first = 251 + 6 * len(named)
        named.setdefault(name, SymbolicDim(name, (first, 2 * first + 7)))
    for i in (0, 1):
        numbers = {name: named[name].sizes[i] for name in names}
        try:
            yield eval(text, numbers | {"__builtins__": {}})
        except SyntaxError:
            raise ValueError(f"syntax error in the symbolic size {text!r}") from None


def symbolic_shape(
    shape_spec: str, *, constraints: Sequence[str] = (), scope: Any = None,
    like: Sequence[int] | None = None,
) -> tuple[Any, ...]:  # fmt: skip
    """The sizes of a text such as "n, 2*n, 3", for `eval_shape`.

    Args:
      constraints: texts such as "n >= 2".
      scope: for JAX's sake: a name is the same size everywhere.
      like: a shape; "_" in the text is its size there, "..." at the end all the rest.

    Returns: a tuple of numbers and `SymbolicDim`s.  JAX: `jax.export.symbolic_shape`.

    Raises:
      NotImplementedError: the numbers that are tried do not meet the constraints.
      ValueError: the text cannot be read, or not beside `like`.
    """
    del scope
    for text in constraints:
        if not all(both_values(text)):
            raise NotImplementedError(f"{text!r} is not so of the sizes that are tried")
    terms = [term.strip() for term in shape_spec.strip(" ()").split(",")]
    terms = [term for term in terms if term]
    if like is not None:
        if terms[-1:] == ["..."]:
            terms[-1:] = ["_"] * (len(like) - len(terms) + 1)
        pairs = zip(terms, like, strict=True)
        terms = [str(n) if term == "_" else term for term, n in pairs]
    return tuple(size_of(term, *both_values(term)) for term in terms)


def symbolic_args_specs(args: Any, shapes_specs: Any, **options: Any) -> Any:
    """Arguments as `ShapeDtypeStruct`s with sizes that have names.

        symbolic_args_specs((x, y), ("n, 3", None))

    Args:
      args: a tree of arrays.
      shapes_specs: texts as for `symbolic_shape`, or None: a prefix of that tree.  The
        arrays' own shapes are what they are like.
      options: `constraints` and `scope` of `symbolic_shape`.
    """
    leaves, tree = tree_flatten(args)
    texts = broadcast_prefix(shapes_specs, args, is_leaf=lambda x: x is None)

    def named_sizes(x: Any, spec: str | None) -> Any:
        struct = stages.ShapeDtypeStruct.like(x)
        spec = "..." if spec is None else spec
        return struct.update(shape=symbolic_shape(spec, like=struct.shape, **options))

    return tree.unflatten(map(named_sizes, leaves, texts))


def size_of(name: str, *sizes: Any) -> Any:
    """The size that is the first number once and the second the other time."""
    known = {dim.sizes: dim for dim in named.values()}
    if sizes[0] == sizes[1]:
        return sizes[0]
    return known.get(sizes) or SymbolicDim(name, sizes)


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`minijit.eval_shape`; sizes of the `ShapeDtypeStruct`s may have names.

        n, = export.symbolic_shape("n")
        x = ShapeDtypeStruct((n, 3), "float32")
        export.eval_shape(lambda x: x.T, x)     # ShapeDtypeStruct(shape=(3, n), ...)

    A program is traced for sizes that are numbers.  So it is traced twice, and a size
    of the result that differs depends on the names: it is a `SymbolicDim` again.
    """
    given = tree_leaves((args, kwargs))
    structs = [x for x in given if isinstance(x, stages.ShapeDtypeStruct)]
    names = {str(d) for x in structs for d in x.shape if is_symbolic_dim(d)}
    if not names:
        return stages.eval_shape(fun, *args, **kwargs)

    def sized(i: int, x: Any) -> Any:
        if not isinstance(x, stages.ShapeDtypeStruct):
            return x
        shape = [d.sizes[i] if is_symbolic_dim(d) else d for d in x.shape]
        return x.update(shape=shape)

    def traced(i: int) -> Any:
        numbers, keywords = tree_map(functools.partial(sized, i), (args, kwargs))
        return stages.eval_shape(fun, *numbers, **keywords)

    unknown = functools.partial(size_of, f"f({', '.join(sorted(names))})")
    joined = lambda x, y: x.update(shape=[*map(unknown, x.shape, y.shape)])
    return tree_map(joined, traced(0), traced(1))


class CallableModule(ModuleType):
    """`minijit.export(f)` means `minijit.export.export(f)`."""

    def __call__(self, fun: Callable[..., Any]) -> Callable[..., Exported]:
        return export(fun)


sys.modules[__name__].__class__ = CallableModule
