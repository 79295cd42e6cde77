"""Programs that do the journeys of docs/clients.md, each with one client.

They run in an environment of their own, with the client alone, and print JSON: journey -> what the
person of that client sees.
"""
