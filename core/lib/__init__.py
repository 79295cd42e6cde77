"""Small functions without state that know no table."""
