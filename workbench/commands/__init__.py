"""The commands of the workbench by subject; `workbench.main` registers them."""
