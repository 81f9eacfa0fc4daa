"""The commands of a service, and the modules that only they need; `workbench.main` is the whole command line."""
