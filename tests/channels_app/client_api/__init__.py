"""Tests of the protocols of other people's clients."""
