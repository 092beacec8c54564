"""What does not overlap, said to LLVM where an argument's `noalias` cannot say it.

    call void @llvm.experimental.noalias.scope.decl(metadata !13)
    %v9 = load float, ptr %v8, !alias.scope !13, !noalias !16

LLVM knows that arrays which a function is given do not overlap.  Of those that swap,
and of tables, it has to be told: that they do not within this nest of loops.
"""

from contextlib import contextmanager

from ...compile.control.region_functions import buffers_in


class AliasScopes:
    """Notes at the loads and stores of a nest: methods for `RegionWriter`.

    Attributes:
      tags: in a nest, {buffer: what its loads and stores say}; None outside of one.
    """

    tags: dict | None

    @contextmanager
    def loop(self, stmt, extent):
        nest = self.tags is None and stmt.axis.kind != "serial"
        if nest:
            self.tags = self.tags_of(stmt)
        with super().loop(stmt, extent) as counter:
            yield counter
        if nest:
            self.tags = None

    def tags_of(self, stmt):
        """What the loads and stores of a nest say."""
        buffers = [b for b in buffers_in((stmt,)) if b.shape]
        if len(buffers) < 2 or not self.moving.intersection(buffers):
            return {}
        domain = self.note("distinct !{SELF}")
        scopes = [self.note(f"distinct !{{SELF, {domain}}}") for _ in buffers]
        lists = [self.note(f"!{{{scope}}}") for scope in scopes]
        kind = "@llvm.experimental.noalias.scope.decl(metadata"
        self.declared[f"declare void {kind})"] = None
        tags = {}
        for buffer, scope, own in zip(buffers, scopes, lists, strict=True):
            others = ", ".join(s for s in scopes if s is not scope)
            rest = self.note(f"!{{{others}}}")
            self.line(f"call void {kind} {own})")
            tags[buffer] = f", !alias.scope {own}, !noalias {rest}"
        return tags

    def alias(self, buffer):
        return self.tags.get(buffer, "") if self.tags else ""
