"""Whoever imports a part has the whole, so that all tables have all of their rows."""

# chapter 16
from ...trace.base.demand import import_compiler

import_compiler()
