"""Installed into the environment's etc/ipython, where every IPython kernel reads it.

A build cell that is run right after a restart finds its magic here, and with it the
words that the notebook's first cell comes first, not "Cell magic `%%build` not found".
"""

c = get_config()  # noqa: F821
names = ("build", "check", "solution", "show", "chapter", "tour")
c.MagicsManager.lazy_magics = dict.fromkeys(names, "minijit.book")
