"""Management commands of core."""
