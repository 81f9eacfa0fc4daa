"""Quotes that travelled honestly and quotes that were altered, made by written-down rules, and what is said of them.

Every rule takes a passage of a chunk, cut at white space, and makes a quote of it. A rule that finds nothing to do in
a passage (no digit, no dash, ...) gets another one. Nothing here uses the code under test to make a quote.
"""
