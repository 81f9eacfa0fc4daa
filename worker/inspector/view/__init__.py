"""Views: plain values of an answer or a recorded run, ready to be drawn; no I/O, no clock.

`run.run_view` makes the view of an answer, `citations.citations_view` that of its citations, `drift.drift_view` that of
a replay. All texts in a view are untrusted: who draws one shows control characters as signs (`core.text.visible`).
"""
