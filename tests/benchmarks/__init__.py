"""Measurements that anyone can repeat: ``make bench``. Numbers, not assertions."""
