"""The assistant's tools: a file for each (a class with types, ``typed.py``), their registry with
those of other packages, their sentences in each language, and a test kit (``testing.py``).
"""
