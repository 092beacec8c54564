"""Two cases in LLVM IR: three blocks and three jumps.

    br i1 %v1, label %then2, label %else2
    then2:  ...  br label %end2
    else2:  ...  br label %end2
    end2:
"""

from contextlib import contextmanager


class Branches:
    """How a writer writes two cases: a method for `LLVMWriter`."""

    lines: list

    @contextmanager
    def branch(self, condition):
        k, second = self.fresh(), []

        def otherwise():
            second.append(f"else{k}")
            self.line(f"br label %end{k}")
            self.begin(f"else{k}")

        at = len(self.lines)
        self.line("the jump, which has to know whether there is a second case")
        self.begin(f"then{k}")
        yield otherwise
        self.line(f"br label %end{k}")
        self.begin(f"end{k}")
        other, *_ = [*second, f"end{k}"]
        self.lines[at] = f"  br i1 {condition}, label %then{k}, label %{other}"
