"""Small functions that know no table: text, ids, tokens, encryption, the guarded fetcher, processes
run for their output.
"""
