"""Every primitive in every table: the matrix, and a stated reason for each hole.

`python tests/test_matrix.py` prints it.  A module that adds a table adds a line to
`TABLES` of `minijit.book.style`; one that adds primitives fills their rows in all.
"""

import functools
import importlib
import importlib.util
import json
import os
import pkgutil
import subprocess
import sys

import pytest

import minijit
from minijit.book.style import TABLES
from minijit.trace.core import Primitive

pytestmark = pytest.mark.chapter(16)

# column: (module, the dict in it)
tables = {
    column: (f"minijit.{file.removesuffix('.py').replace('/', '.')}", name)
    for column, file, name in TABLES
}

# What is not linear in any argument: it stands in a linear program on residuals only.
not_linear = """
    abs acos acosh and argmax argmin asin asinh atan atan2 atanh axis_index bessel_i0e
    bessel_i1e bitcast_convert_type borrow cbrt ceil clamp clz cos cosh cumlogsumexp
    cummax cummin cumprod custom_vjp_call digamma eq erf erf_inv erfc igamma_grad_a
    random_gamma_grad exp exp2 expm1 floor ge gt igamma igammac integer_pow iota
    is_finite le lgamma log log1p logistic lt max min ne nextafter not or pmax pmin
    polygamma population_count random_unwrap random_wrap pow reduce_and reduce_max
    reduce_min reduce_or reduce_prod reduce_window_max reduce_window_min reduce_xor
    regularized_incomplete_beta rem round rsqrt scatter-max scatter-min shift_left
    shift_right_arithmetic shift_right_logical sign sin sinh sort sqrt square trigamma
    stop_gradient tan tanh threefry2x32 top_k while xor zero zeta cholesky eig eigh
    geqrf hessenberg householder_product lu lu_pivots_to_permutation qr check
    io_callback pure_callback rng_bit_generator schur svd tridiagonal checkpointed_while
"""
# column: {why a primitive has no row there: primitives}
missing = {
    "transpose": {"not linear": not_linear,
                  "its own derivative takes tapes": "treeverse"},
    "linearize": {
        "it has no arguments": "axis_index",
        "not differentiable, as in JAX":
            "geqrf hessenberg lu_pivots_to_permutation pmax pmin schur tridiagonal",
    },
    "batch": {"it has no arguments, so none has lanes": "axis_index iota zero"},
    "lower": {
        "a vmap makes it a reduction": "all_gather axis_index pmax pmin psum",
        "in the dtypes of memory it is a bitcast, or left to NumPy":
            "random_unwrap random_wrap",
        "inlined as a while, before it is lowered": "checkpointed_while",
        "inlined as a scan, before it is lowered": "replay",
        "the function that it calls is inlined, before it is lowered": """
            custom_jvp_call custom_linear_solve custom_vjp_call custom_vmap_call
            linear_call rng_bit_generator""",
    },
}  # fmt: skip
reasons = {
    (column, name): why
    for column, rows in missing.items()
    for why, names in rows.items() for name in names.split()
} | {
    (column, name): f"{what} becomes it when it is lowered, not before"
    for what, names, columns in [
        ("a convolution", "patches direct_convolution direct_convolution_over_images",
         "eval shape linearize transpose batch"),
        ("`top_k`", "largest", "linearize transpose batch"),
    ]
    for name in names.split() for column in columns.split()
}  # fmt: skip


def all_reasons():
    """Those above, and the library's own for what it does not compile."""
    from minijit.compile.lower.walk import fallbacks

    return reasons | {("lower", p.name): why for p, why in fallbacks.items()}


def library_modules():
    """Every module of the library, imported; the book machinery is none of it."""
    found = pkgutil.walk_packages(minijit.__path__, "minijit.")
    names = [m.name for m in found if not m.name.startswith("minijit.book")]
    return [importlib.import_module(name) for name in names]


def load_tables():
    """column -> dict, of the modules that exist."""
    return {
        column: getattr(importlib.import_module(module), name)
        for column, (module, name) in tables.items()
        if importlib.util.find_spec(module)
    }


def all_primitives(columns):
    """Those that stand in a module or in a table, by name."""
    modules = library_modules()
    values = {id(v): v for module in modules for v in vars(module).values()}
    found = {v for v in values.values() if isinstance(v, Primitive)}
    found |= {p for rows in columns.values() for p in rows}
    return sorted(found, key=lambda p: p.name)


def matrix():
    """-> (text, holes): the matrix as text, and its holes without a reason."""
    columns = load_tables()
    primitives = all_primitives(columns)
    width = max(len(p.name) for p in primitives)
    lines = [" " * width + "  " + " ".join(columns)]
    holes, notes, stated = [], [], all_reasons()
    for p in primitives:
        cells = []
        for column, rows in columns.items():
            reason = stated.get((column, p.name))
            mark = "x" if p in rows else "-" if reason else "HOLE"
            if mark == "-":
                notes.append(f"  {p.name}, {column}: {reason}")
            elif mark == "HOLE":
                holes.append((column, p.name))
            cells.append(mark.ljust(len(column)))
        lines.append(f"{p.name.rjust(width)}  {' '.join(cells)}".rstrip())
    return "\n".join([*lines, "without a row:", *(notes or ["  none"])]), holes


def stale_reasons(columns, primitives):
    """Reasons for rows that are there, or for primitives that are not."""
    names = {p.name: p for p in primitives}
    return [
        (column, name)
        for column, name in reasons
        if column in columns and (name not in names or names[name] in columns[column])
    ]


def report():
    """All that the tests want to know."""
    columns = load_tables()
    primitives = all_primitives(columns)
    names = [p.name for p in primitives]
    text, holes = matrix()
    return {
        "text": text,
        "holes": holes,
        "stale": stale_reasons(columns, primitives),
        "twice": sorted({name for name in names if names.count(name) > 1}),
        "count": len(names),
    }


@functools.cache
def found():
    """The report of a process of its own: other tests make primitives as they go."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, "json"]
    run = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def test_no_hole_without_a_reason():
    print(found()["text"])
    assert not found()["holes"], "no row, and no reason in tests/test_matrix.py"


def test_no_reason_without_a_hole():
    assert not found()["stale"], "reasons for rows that are there, or no primitives"


def test_primitives_have_names_of_their_own():
    assert not found()["twice"] and found()["count"] > 60


if __name__ == "__main__":
    print(json.dumps(report()) if "json" in sys.argv else report()["text"])
