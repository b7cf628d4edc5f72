"""How good predictions are: of two and several classes, of numbers, and of clusters.

`binary`, `multiclass`, `regression` and `clustering` are pure numpy; `decoding` checks the tables,
`metrics` names what can be asked for; `evaluation` is the component. No scikit-learn here: the
definitions are FATE's, and importing its measures costs a task 130 MiB and a second.
"""
