"""Solutions to chapter 22."""


def columns_of(kind, values):
    if kind == "number":
        return [[0, *values]]
    name, *inner = kind
    if name == "list":
        starts, lengths, items = [0], [-1], []
        for value in values:
            starts.append(1 + len(items))
            lengths.append(len(value))
            items += value
        return [starts, lengths, *columns_of(inner[0], items)]
    rows, held = [[0] for _ in inner], [[] for _ in inner]
    for case, value in values:
        held[case].append(value)
        for k, row in enumerate(rows):
            row.append(len(held[k]) if k == case else 0)
    for each, found in zip(inner, held, strict=True):
        rows += columns_of(each, found)
    return rows


def check_columns_of(columns_of):
    """All items of all lists go to one call for their kind, and so does each case."""
    number, pair = "number", ("cases", "number", ("list", "number"))
    nested = [[[3, 1], []], [], [[4]]]
    cases = [(0, 7), (1, [5, 6]), (0, 8), (1, [])]
    for kind, values, want in [
        (number, [4, 2], [[0, 4, 2]]),
        (("list", number), [[8, 6], [5]], [[0, 1, 3], [-1, 2, 1], [0, 8, 6, 5]]),
        (("list", number), [], [[0], [-1], [0]]),
        (("list", ("list", number)), nested, [
            [0, 1, 3, 3], [-1, 2, 0, 1], [0, 1, 3, 3], [-1, 2, 0, 1], [0, 3, 1, 4],
        ]),
        (pair, cases, [
            [0, 1, 0, 2, 0], [0, 0, 1, 0, 2], [0, 7, 8], [0, 1, 3], [-1, 2, 0],
            [0, 5, 6],
        ]),
        (("list", pair), [cases[:1], cases[1:3]], [
            [0, 1, 2], [-1, 1, 2], [0, 1, 0, 2], [0, 0, 1, 0], [0, 7, 8], [0, 1],
            [-1, 2], [0, 5, 6],
        ]),
    ]:
        assert columns_of(kind, values) == want
