"""From a question to an answer that shows its sources: ``build_sources → synthesize_context → execute``.

What to read, each importing only from those before it:

- `types`: the nouns, which go to JSON and back.
- `stages`: what each stage took and left out.
- `queries`, `reusing`, `sources`: the first stage.
- `synthesis`: the second.
- `execution`: the third.
- `serving`: the whole as a job: conversations, packages kept between stages, runs.
"""
