"""Inspector in a terminal.

Pure modules turn views into lines: `lines` has what they share, `answer`, `trace`, `citations`, `drift` and `runs` one
pane each. `desk` reads and asks for the caller; `pane` and `app` are the thin part that needs Textual.
"""
