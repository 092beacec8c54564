"""Tests import each other by plain names, and scripts here run as `-m tests.golden`.

This file makes `tests` this folder: a library that installs one is not taken for it.
"""
