"""What a stored model shows: pure functions from its JSON to sections of a page.

`visible` takes away what a site may not see, `registry` finds the shape of a model by the name of
its param object, one module per family makes the sections, `slices` sorts and cuts their tables,
`drawing` places bars. An unknown model is shown as facts and a tree of its JSON.
"""
