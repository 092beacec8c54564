"""Einstein's summation convention, read and planned; `minijit.numpy.einsum` computes.

    terms, result = parse("b i j, j k", 2)     # [["b","i","j"], ["j","k"]], None
    terms, result = expand(terms, result, [(8, 2, 3), (3, 4)])    # result: b, i, k
    contraction_path(terms, result, sizes_of(terms, shapes))      # [(0, 1)]

Each operand is a list of names, one an axis.  A name in several operands multiplies
along it; one that the result lacks is summed over; one that an operand has twice means
its diagonal.  "..." stands for axes without a name, which broadcast.  The order of the
products matters for the cost: a path says which operands to contract, one pair after
another; what a pair gives goes to the end of the list.
"""

import itertools
import math
from collections import Counter

ellipsis = "..."


def parse(subscripts, count):
    """A string of subscripts as lists of names.

    Args:
      subscripts: such as "ij, jk -> ik"; spaces do not matter.
      count: how many operands there are.

    Returns:
      (for each operand a list of names, the names of the result or None).
    """
    left, arrow, right = subscripts.replace(" ", "").partition("->")
    terms = [names_of(term, subscripts) for term in left.split(",")]
    if len(terms) != count:
        raise ValueError(
            f"einsum subscripts {subscripts!r} name {len(terms)} operands, got {count}"
        )
    return terms, names_of(right, subscripts) if arrow else None


def names_of(term, subscripts):
    """The names in one term: letters, and "..." at most once."""
    before, dots, after = term.partition(ellipsis)
    names = [*before, *([ellipsis] if dots else []), *after]
    for name in names:
        if name != ellipsis and not name.isalpha():
            raise ValueError(
                f"einsum subscripts {subscripts!r}: {name!r} is not a valid name of "
                "an axis; use letters, '...', ',' and '->'"
            )
    return names


def parse_lists(arguments):
    """The form `einsum(x, [0, 1], y, [1, 2], [0, 2])`, whose names are ints.

    Returns:
      (for each operand a list of names, the names of the result or None, operands).
    """
    pairs = len(arguments) // 2
    terms = [list_names(names) for names in arguments[1 : 2 * pairs : 2]]
    result = list_names(arguments[-1]) if len(arguments) % 2 else None
    return terms, result, arguments[: 2 * pairs : 2]


def list_names(names):
    """A list of ints and Ellipsis as names."""
    return [ellipsis if name is Ellipsis else name for name in names]


def expand(terms, result, shapes):
    """Replace "..." by names of its own, and name the result if it is not named.

    Returns:
      (for each operand a list of names, a list of names for the result).
    """
    terms = [
        expand_term(names, len(shape), i)
        for i, (names, shape) in enumerate(zip(terms, shapes, strict=True))
    ]
    found = {name for names in terms for name in names}
    dots = sorted(name for name in found if isinstance(name, tuple))
    if result is None:
        counts = Counter(name for names in terms for name in names)
        once = [n for n in counts if counts[n] == 1 and not isinstance(n, tuple)]
        return terms, [*dots, *sorted(once)]
    place = result.index(ellipsis) if ellipsis in result else None
    if place is not None:
        result = [*result[:place], *dots, *result[place + 1 :]]
    for name in result:
        if name not in found or result.count(name) > 1:
            why = "is there twice" if name in found else "is in no operand"
            raise ValueError(f"einsum: the name {name!r} of the result {why}")
    return terms, list(result)


def expand_term(names, rank, position):
    """The names of one operand, its "..." counted from the last axis it stands for."""
    extra = rank - sum(name != ellipsis for name in names)
    if extra < 0 or (extra > 0 and ellipsis not in names):
        raise ValueError(
            f"einsum operand {position} has {rank} axes, but its subscripts name "
            f"{rank - extra}"
        )
    if ellipsis not in names:
        return list(names)
    place = names.index(ellipsis)
    dots = [(ellipsis, i) for i in range(-extra, 0)]
    return [*names[:place], *dots, *names[place + 1 :]]


def sizes_of(terms, shapes):
    """{name: size} for names that agree in all operands; sizes of 1 broadcast."""
    sizes = {}
    for names, shape in zip(terms, shapes, strict=True):
        for name, size in zip(names, shape, strict=True):
            known = sizes.get(name, 1)
            if size != known and 1 not in (size, known):
                raise ValueError(
                    f"einsum: the axis {name!r} has size {known} in one operand and "
                    f"{size} in another, of shapes {shapes}"
                )
            sizes[name] = size if known == 1 else known
    return sizes


def volume(names, sizes):
    """How many elements an array with these axes has."""
    return math.prod(sizes[name] for name in names)


def contraction_path(terms, result, sizes, optimize="auto"):
    """Which operands to contract, one pair after another.

    Args:
      optimize: False for the order they are in, a path as this function gives it, or
        anything else for a cheap one: the best for up to five operands, else greedy.

    Returns:
      A list of tuples of positions, as in `np.einsum_path`.
    """
    if isinstance(optimize, (list, tuple)):
        path = [p for p in optimize if not isinstance(p, str)]
        if not all(isinstance(p, (list, tuple)) for p in path):
            raise TypeError(f"optimize must be a path of tuples of ints, got {path}")
        return [tuple(p) for p in path]
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    if optimize is False:
        return [(0, 1)] + [(0, n - 1) for n in range(len(terms) - 1, 1, -1)]
    sets = [frozenset(names) for names in terms]
    if len(terms) <= 5 and optimize != "greedy":
        return best_path(sets, frozenset(result), sizes)[1]
    return greedy_path(sets, frozenset(result), sizes)


def contracted(terms, pair, result):
    """The operands after a pair of them was contracted."""
    rest = [names for i, names in enumerate(terms) if i not in pair]
    needed = result.union(*rest)
    return [*rest, terms[pair[0]].union(terms[pair[1]]) & needed]


def best_path(terms, result, sizes):
    """-> (multiplications, path): the cheapest of all orders."""
    if len(terms) == 1:
        return 0, []
    choices = []
    for pair in itertools.combinations(range(len(terms)), 2):
        cost = volume(terms[pair[0]] | terms[pair[1]], sizes)
        more, path = best_path(contracted(terms, pair, result), result, sizes)
        choices.append((cost + more, [pair, *path]))
    return min(choices)


def greedy_path(terms, result, sizes):
    """Contract, each time, the pair whose result is smallest compared to it."""
    path = []
    while len(terms) > 1:

        def growth(pair, terms=terms):
            after = contracted(terms, pair, result)[-1]
            before = sum(volume(terms[i], sizes) for i in pair)
            return volume(after, sizes) - before, pair

        pair = min(itertools.combinations(range(len(terms)), 2), key=growth)
        terms = contracted(terms, pair, result)
        path.append(pair)
    return path
