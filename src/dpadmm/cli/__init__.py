"""The command line: typer commands, thin; text becomes types here, and errors name options. Nothing to import."""

__all__: list[str] = []
