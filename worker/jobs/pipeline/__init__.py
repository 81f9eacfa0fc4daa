"""Pipeline from a question to an answer with citations: ``build_sources → synthesize_context → execute``.

Modules, each importing only from those before it:

- `types`: value types, serialised to JSON and back.
- `stages`: durations, counts and dropped candidates of each stage.
- `plan`, `queries`, `source_cache`, `sources`: the first stage.
- `synthesis`: the second.
- `execution`: the third.
- `jobs`: the `run_pipeline` job: conversations, packages stored between stages, runs.
"""
