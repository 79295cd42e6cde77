"""Following a run; message types as text (``text.py``), answers, links, translations. Markdown
itself: ``core.markdown``, a file for each form.
"""
