"""The command line: typer commands, thin; words become types here, and errors name options. Nothing to import."""

__all__: list[str] = []
