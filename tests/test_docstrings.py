"""Examples in docstrings are what the functions do."""

import doctest

import numpy as np
import pytest

import minijit as mj
import minijit.numpy as jnp
from minijit import lax, nn, random, tree_util
from minijit.trace.api.examples import examples

pytestmark = pytest.mark.chapter(16)
homes = {"minijit": mj, "jnp": jnp, "lax": lax, "nn": nn, "random": random}
homes["tree_util"] = tree_util


def test_the_names_that_people_use_most_have_examples():
    assert len(examples) >= 60


# What there is from chapter 20 on.
SEEING = "explain steps stages profile log_kernels".split()
LATER = {*(f"minijit.{name}" for name in SEEING), "report.why_not_fused"}


def names():
    for name in examples:
        marks = [pytest.mark.chapter(20)] if name in LATER else []
        yield pytest.param(name, marks=marks)


@pytest.mark.parametrize("name", list(names()))
def test_an_example_in_a_docstring(name):
    home, _, short = name.partition(".")
    if name in LATER:
        from minijit.run.report.explaining import Report

        homes["report"] = Report
    text = getattr(homes[home], short).__doc__
    assert text.count("Example:\n") == 1
    space = {"mj": mj, "jnp": jnp, "lax": lax, "nn": nn, "random": random, "np": np}
    found = doctest.DocTestParser().get_doctest(text, space, name, None, None)
    assert found.examples
    told: list = []
    assert doctest.DocTestRunner().run(found, out=told.append).failed == 0, told
