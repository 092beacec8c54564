"""The order of the compiler, read from top to bottom.

    jaxpr     shortcuts       -> jaxpr      what takes the place of an equation
              expansions      -> jaxpr      equations that are lowered in its place
              loop_expansions -> jaxpr      the same, in the body of a loop
              row_choosers    -> Program    who lowers an equation to nests and calls
              other_walks     -> Program    other ways through a whole jaxpr
    Program   program_passes  -> Program    which nests are one kernel
              rewrites        -> Program    loops chosen by price, memory written over,
                                            native loops
    kernel    arrangements    -> kernel     in which loops its statements run
              kernel_forms    -> kernels    several for one, whose blocks cannot wait
              nest_forms      -> kernel     on which blocks and threads of a GPU
              `place`, a walker, an emitter -> code

What a pass does stands in its own module, which fills its place in a stage, as a row
fills a table; chapters before it run without.  When it is called stands here alone:

    arrangements |= {"in_lanes": in_lanes}
    body = arrangements.through(body)
"""

from contextvars import ContextVar

# While somebody watches (`minijit.steps`): function of a stage, a pass of it or None
# before the first one, and the form that is there then.
watching: ContextVar = ContextVar("watching", default=None)


class Stage(dict):
    """The passes from one form of a program to the next: {name: function}.

    Attributes:
      names: of all passes, in the order in which they are called.
      passes: those that are there, in this order.
    """

    def __init__(self, *names):
        super().__init__()
        self.names, self.passes = names, ()

    def __ior__(self, passes):
        if unknown := passes.keys() - set(self.names):
            raise KeyError(f"passes without a place in the pipeline: {sorted(unknown)}")
        self.update(passes)
        self.passes = tuple(self[name] for name in self.names if name in self)
        return self

    def name_of(self, change):
        """The name of a pass."""
        return next(name for name in self if self[name] is change)

    def through(self, form, call=lambda change, form: change(form)):
        """What the passes make of a form, one after the other.

        Args:
          call: how a pass is applied to a form.
        """
        watch = watching.get()
        if watch is not None:
            watch(self, None, form)
        for change in self.passes:
            form = call(change, form)
            if watch is not None:
                watch(self, change, form)
        return form


# Functions (simplifier, primitive, aval of the result, arguments, params) -> an atom
# that is the result already, or None.  The first answer is taken.
shortcuts = Stage(
    "nothing",  # results without elements
    "by_rule",  # x * 1 is x
    "fold",  # equations of constants
)

# Functions of a jaxpr: the one to lower in its place.
expansions = Stage(
    "with_own_inputs",  # lanes that wait borrow none, where that does no harm
    "in_wide_numbers",  # products and convolutions of halves, and short integers
    "direct_convolutions",  # as loops of our own
    "patches",  # other convolutions, as products
    "windows_in_bounds",  # of arrays that have their padding
    "in_real_products",  # products of complex numbers, on a GPU
    "largest_words",  # elements and their places as integers
    "with_own_results",  # an array for each result
)

# The same of a jaxpr that is the body of a loop, or a branch of one.
loop_expansions = Stage(
    "in_real_products",  # products of complex numbers
    "small_sorts",  # which no call of NumPy has to do
)

# Functions of an equation: the row that lowers it where its primitive does not decide,
# or None.  The first answer is taken.
row_choosers = Stage(
    "residuals",  # unions and tapes in native loops
    "native_lapack",
    "native_selection",
    "native_loops",
    "on_narrow",  # float8 and the like
    "uncompiled",
    "many_operands",
    "half_nextafter",
    "product",  # a call of BLAS, or loops
)

# Functions of a walk that has not begun, and of the values of its constants: the same
# of a walk that is over, and may have gone another way; or None.
other_walks = Stage("in_blocks")  # small matrices of many lanes, in registers

# Functions of a program: the one that takes its place.
program_passes = Stage("fused")

# The same, when a program is loaded; and where it is loaded onto a GPU.
rewrites = Stage("scheduled", "with_reuse", "with_regions", "rejoined")
device_rewrites = Stage(
    "with_reuse", "with_regions_of_blocks", "rejoined", "with_parts"
)

# Functions of a kernel's statements: statements that do the same, in other loops.
arrangements = Stage(
    "in_first_places",  # where an extreme stands, as two totals in any order
    "in_long_rows",  # loops that are one in memory, around totals
    "in_digits",  # a loop for each digit of an axis: repeated and tiled arrays
    "in_tiles",  # sums of products, in registers
    "in_lanes",  # elements of a block: lanes side by side
    "in_parts",  # long totals, a part for each core
    "in_blocks",  # rows that several nests share, cut into blocks of columns
    "interchanged",  # totals over outer axes, in rows
    "in_panels",  # arrays along other axes, turned in panels
    "with_totals_aside",  # functions have loops of their own, beside their totals
    "in_ranges",  # loops cut where conditions change
    "in_pieces",  # totals of all rows, beside the loop that makes the rows
    "in_shares",  # long sums, which grow in float64 a share at a time
)

# Functions of a kernel, a list for new temporaries, how many others there are: several
# kernels for a GPU in its place, or None.  The first answer is taken.
kernel_forms = Stage("totals_apart", "in_parts", "in_pieces", "by_winners")

# Functions of a nest: its `Part` of a GPU's grid, or None.  The first answer is taken.
nest_forms = Stage("running", "in_any_order", "lanes_first", "tiled")

# Functions of a `Part`: one that does the same and moves less, or itself.
part_forms = Stage("kept_by_block", "in_quads")
