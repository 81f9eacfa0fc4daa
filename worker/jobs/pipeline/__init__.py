"""Pipeline from a question to an answer with citations: ``build_sources → synthesize_context → execute``.

Modules, each importing only from those before it:

- `types`: value types, serialised to JSON and back.
- `stages`: durations and counts of each stage, failed parts.
- `plan`, `queries`, `source_cache`, `ranking`, `sources`: the first stage.
- `synthesis`: the second.
- `execution`: the third.
- `conversations`, `stored_packages`: what a job continues.
- `jobs`: the `run_pipeline` job, and its records in runs.
"""
