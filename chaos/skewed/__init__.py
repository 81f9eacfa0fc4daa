"""On PYTHONPATH of workers whose clock is wrong; no part of the harness itself."""
