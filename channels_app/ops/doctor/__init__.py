"""Checks that report what is unsafe or broken in this installation, each with its fix."""
