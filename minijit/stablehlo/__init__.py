"""Jaxprs as StableHLO, the language in which XLA takes programs: see `minijit.export`.

`text` writes values, types, attributes and regions; `arrays` has a row for each
primitive of arrays, and `programs` for calls, branches, loops and residuals.
"""
