"""The client that this worker needs: from a checkout the one beside it, else the published one of the same version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class ClientDependency(MetadataHookInterface):
    """Adds `retrieval-client` to the dependencies. Source distributions have no `client/`, so their wheels name it."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill `project.dependencies`."""
        beside = Path(self.root, "client")
        wanted = f" @ {beside.as_uri()}" if beside.is_dir() else f"=={metadata['version']}"
        metadata["dependencies"] = [*self.config["dependencies"], f"retrieval-client{wanted}"]
