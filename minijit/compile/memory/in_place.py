"""Results in the memory of an operand that nobody needs any more.

    t0 = matmul(in0, in0)               out0 = matmul(in0, in0)
    for i in 64:                        for i in 64:
      out0[i] = tanh(t0[i])               out0[i] = tanh(out0[i])

A kernel that reads of an array only the element that it stores may store it there.

    with_kernels_in_place(program)      # the program, with fewer buffers
"""

from collections import defaultdict
from dataclasses import replace
from functools import partial

from ..decisions import loop_rules, noted
from ..loops.contents import loads_within, only_sets, perfect, totals_in
from ..loops.expressions import Axis, Const
from ..loops.graphs import sorted_steps
from ..loops.statements import Kernel, nested
from ..settings import config
from .overwriting import Names

loop_rules |= {
    "over": (True, "it stores a result over what nobody else needs", "reuse_bytes"),
    "beside": (False, "so small an array fits into the cache twice", "reuse_bytes"),
    "crossed": (False, "two results would each be stored over what the other reads"),
}


def with_kernels_in_place(program):
    """A program whose elementwise kernels write over operands that end there."""
    names, body, dying = Names(program), list(program.body), dying_in(program)
    for i, step in enumerate(body):
        if type(step) is Kernel:
            pairs, body[i] = reusable(step, partial(dying, i, step))
            for old, new in pairs:
                names.join(old, new)
                noted("over", *step.eqns, bytes=old.nbytes)
    return names.program_with(body) if names.found else program


def after_reads(pairs, stores, reads):
    """An order of stores in which an array is written when all others have read it.

    Two stores keep their order if one of them writes what the other one touches.
    """
    before, touched = {}, []
    for k, store in enumerate(stores):
        touched.append({store.buffer, *(e.buffer for e in reads[store])})
        before[k] = {
            j for j in range(k)
            if store.buffer in touched[j] or stores[j].buffer in touched[k]
        }  # fmt: skip
        for old in [old for old, new in pairs.values() if new is store.buffer]:
            readers = (any(e.buffer is old for e in reads[s]) for s in stores)
            before[k] |= {j for j, reader in enumerate(readers) if reader and j != k}
    return sorted_steps(before)


# chapter 19
from .arena import lifetimes, own_memory


def elementwise(kernel):
    """(axes, stores) of a kernel that is nothing but stores in one nest, or None."""
    axes, body = perfect(kernel.body)
    fixed = all(type(axis.extent) is int for axis in axes)
    if not fixed or not only_sets(body) or totals_in(body):
        return None
    return axes, body


def covers(store, axes):
    """Whether a store in loops over some axes stores each element once."""
    pairs = zip(store.index, store.buffer.shape, strict=True)
    pairs = [(i, n) for i, n in pairs if type(i) is not Const or n > 1]
    moving = [i for i, _ in pairs]
    whole = all(type(i) is Axis and i.extent == n for i, n in pairs)
    return whole and len({*moving}) == len(moving) and {*moving} == {*axes}


def reusable(kernel, dying):
    """Which arrays a kernel may store in the place of others, and its stores' order.

    Args:
      dying: function of (read, stored): 0 if the second must not be stored over the
        first one; else the larger, the more it is wanted.

    Returns:
      (pairs (read, stored), the kernel with its stores in an order for them).
    """
    found = elementwise(kernel)
    if found is None:
        return [], kernel
    axes, stores = found
    reads = {s: loads_within(s.uses()) for s in stores}
    indices = defaultdict(set)
    for loads in reads.values():
        for load in loads:
            indices[load.buffer].add(load.index)
    pairs = {}
    for k, store in enumerate(stores):
        if not covers(store, axes):
            continue
        taken = [old for old, _ in pairs.values()]
        free = [b for b in indices if indices[b] == {store.index} and b not in taken]
        for old in sorted(free, key=lambda b: -dying(b, store.buffer)):
            if not dying(old, store.buffer):
                continue
            found = {**pairs, k: (old, store.buffer)}
            if after_reads(found, stores, reads) is not None:
                pairs = found
                break
            noted("crossed", *kernel.eqns, bytes=old.nbytes)
    if not pairs:
        return [], kernel
    body = nested(axes, [stores[k] for k in after_reads(pairs, stores, reads)])
    return list(pairs.values()), replace(kernel, body=body)


def dying_in(program):
    """For `reusable`: a function (i, kernel, read, stored) of the kernel at step i.

    A result is written over an argument that was given away for it, if that can be.
    """
    lives, given = lifetimes(program), donated_pairs(program)
    temps = {*program.temps} - own_memory(program) - {*program.outputs}
    results = {*program.outputs} - own_memory(program) | temps

    def dying(i, kernel, old, new):
        ends = lives[old][1] == i == lives[new][0]
        alike = (old.shape, old.dtype) == (new.shape, new.dtype)
        if (old, new) in given:
            return 2 * ends
        if not (ends and alike and old in temps and new in results):
            return 0
        large = old.nbytes >= config.fusion.reuse_bytes
        return large or noted("beside", *kernel.eqns, bytes=old.nbytes)

    return dying


# chapter 19, brought along


def donated_pairs(program):
    """Pairs (argument that was given away, result) whose memory may be one."""
    results = {*program.outputs} - own_memory(program)
    given = {*program.inputs} - own_memory(program) - results
    return [(a, b) for a, b in program.donated if a in given and b in results]


def with_results_in_arguments(program):
    """A program whose results lie where arguments did that were given away for them.

    That is so if the last step that uses the argument is over before the first one that
    uses the result.
    """
    lives, names = lifetimes(program), Names(program)
    for old, new in donated_pairs(program):
        if old in lives and new in lives and lives[old][1] < lives[new][0]:
            names.join(old, new)
    return names.program_with(program.body) if names.found else program
