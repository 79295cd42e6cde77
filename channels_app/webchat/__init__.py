"""The web chat at ``/`` over ``/ws``."""
