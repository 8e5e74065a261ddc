"""The agent on a tree: a thousand cells, of which a step looks at a few dozen."""
