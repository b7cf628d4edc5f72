"""How good predictions are: numbers and curves of binary, multi-class and regression results.

`binary`, `multiclass` and `regression` are pure numpy; `metrics` names what can be asked for;
`evaluation` is the component. No scikit-learn here: the definitions are FATE's.
"""
