"""This worker beside what a user would take instead, on the same rows, in turns.

Read in this order: `sides` (who takes part), `workers/` (what each of them runs), `peers` (their environments and
tables), `rounds` (how they take turns), `costs` (what is counted), `figures` (ratios, goals, and when nothing may be
compared), `growth` (curves), `report` and `plots`.
"""
