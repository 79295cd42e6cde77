"""Documents as text with page and section references, read in a process with limits ([L5])."""
