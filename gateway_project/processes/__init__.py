"""The processes of one machine, and the supervisor that starts, watches and stops them.

Nothing here imports Django except the children themselves, so that the supervisor stays small.
"""
