"""Tests of the REST interface."""
