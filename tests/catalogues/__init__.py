"""The catalogues of the interface's texts: made from the sources, and checked."""
