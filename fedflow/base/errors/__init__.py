"""Every error of fedflow, one class each, in one module per area.

A class has a number in its area's block (never reused), the FATE return code and HTTP status that
the entry points answer with, and a hint that says what to do next. The first line of the docstring
is the message; its `{fields}` are the keyword arguments of the constructor. `catalog` knows all
classes and lists the areas. Nothing is re-exported here.
"""
