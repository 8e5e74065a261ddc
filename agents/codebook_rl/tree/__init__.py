"""The agent on a tree: a thousand cells, of which a step looks at a few dozen.

From the ground up: `layout` names the arrays; `partition` divides a codebook into branches, `storage`
lays the cells of each side by side; `search` finds the branches near an observation; `values` is the
fast timescale on them, `looking` the rest of a step, `observing` the whole of it; `kernels` holds what
Python calls, `slow` and `learner` the state.
"""
