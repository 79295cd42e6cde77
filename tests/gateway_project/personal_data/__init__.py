"""Tests of the export of a person's data, and of forgetting a person."""
