"""Random programs: `programs` draws them as text, `judge` compares, `python -m`."""
