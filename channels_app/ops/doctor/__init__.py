"""Checks for unsafe or broken parts of this installation; each finding names its fix."""
