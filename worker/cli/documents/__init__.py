"""Documents that people have, as chunks: folders of PDF, HTML, Markdown and text.

What to read, each importing only from those before it:

- `passages`: what every reader makes of a file.
- `page_breaks`: sentences that go on over a page's end.
- `pdf`, `html`, `reader`: the readers; `reader` runs them in a process of its own, with limits.
- `reading`: that process, from outside.
- `splitting`: passages cut into chunks that the embedder reads whole.
- `folders`: which files are read, and their chunks.
"""
