"""What JAX's stages tell of a program: what it costs, what memory it needs.

    lowered = jit(f).lower(x)
    lowered.cost_analysis()["flops"]
    lowered.compile().memory_analysis().temp_size_in_bytes

The numbers are those of `explain`: of the kernels and calls as they run here.
"""

from dataclasses import dataclass

from .. import compiler as compiler
from ..run.report.explaining import report_of
from ..trace.api.devices import placement
from ..trace.array import ShapedArray
from ..trace.trees.pytree import tree_map


@dataclass(frozen=True)
class ArgInfo:
    """The type of an argument, and whether it is given away.  JAX: `stages.ArgInfo`."""

    _aval: ShapedArray
    donated: bool

    shape = property(lambda self: self._aval.shape)
    dtype = property(lambda self: self._aval.dtype)


@dataclass(frozen=True)
class CompiledMemoryStats:
    """Bytes that a compiled program needs.  JAX: the result of `memory_analysis`.

    Attributes:
      argument_size_in_bytes, output_size_in_bytes: of all arguments, and results.
      alias_size_in_bytes: of results that take the memory of donated arguments.
      temp_size_in_bytes: of temporaries and constants: those that are in use at once.
      peak_memory_in_bytes: of all that, results in donated memory counted once.
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    generated_code_size_in_bytes: int = 0

    @property
    def peak_memory_in_bytes(self):
        sizes = self.argument_size_in_bytes + self.output_size_in_bytes
        return sizes + self.temp_size_in_bytes - self.alias_size_in_bytes


def cost_analysis(stage):
    """-> {"flops": ..., "bytes accessed": ...} of a `Lowered` or a `Compiled`.

    Flops are -1.0 where loops run for a number of steps that is not known before.
    """
    report = report_of(stage if hasattr(stage, "executable") else stage.compile())
    flops = -1.0 if report.flops is None else float(report.flops)
    return {"flops": flops, "bytes accessed": float(report.traffic_bytes)}


def memory_analysis(compiled):
    """-> `CompiledMemoryStats`."""
    report = report_of(compiled)
    sizes = dict.fromkeys(("argument", "constant", "result", "donated"), 0)
    for array in report.arrays:
        if array.role in sizes:
            sizes[array.role] += array.nbytes
    arguments = sum(map(nbytes, compiled.lowered.avals))
    results = sum(map(nbytes, compiled.lowered.jaxpr.out_avals))
    # The peak of a report has the results in it that are no donated arguments.
    temporaries = report.peak - sizes["result"] + sizes["constant"]
    return CompiledMemoryStats(arguments, results, sizes["donated"], temporaries)


def nbytes(aval):
    return aval.size * aval.dtype.itemsize


def args_info(stage):
    """`ArgInfo`s in the structure of (args, kwargs)."""
    lowered = getattr(stage, "lowered", stage)
    donated = lowered.donate_argnums
    infos = [ArgInfo(aval, i in donated) for i, aval in enumerate(lowered.avals)]
    return lowered.in_tree.unflatten(infos)


def input_shardings(compiled):
    """Where arguments lie, in the structure of (args, kwargs): on the one device."""
    return tree_map(lambda aval: placement, compiled.in_avals)


def output_shardings(compiled):
    """Where results lie, in their structure."""
    return tree_map(lambda info: placement, compiled.out_info)
