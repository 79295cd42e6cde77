"""The trace page of a run, the target of links for clients with limited rendering."""
