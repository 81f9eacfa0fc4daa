"""Quotes that travelled honestly and quotes that were altered, made by written-down rules, and what is said of them.

Texts are of 13 languages and of code, or any files. A rule changes a passage, or puts a fragment into it and another
into the quote. Nothing here uses the code under test to make a quote.
"""
