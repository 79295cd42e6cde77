"""The protocols of other people's clients: one base (request, adapter, endpoint), and a package for
each protocol.
"""
