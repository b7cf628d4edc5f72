"""`fedflow completion`: Let the shell complete commands, options and names."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.option("--program", type=click.Choice(["fedflow", "flow"]), default="fedflow",
              show_default=True, help="The command that is completed.")  # fmt: skip
def command(shell: str, program: str) -> None:
    """Print a shell's script that completes commands, options, and names that the server knows.

    bash: add `eval "$(fedflow completion bash)"` to ~/.bashrc; zsh the same to ~/.zshrc; fish:
    `fedflow completion fish > ~/.config/fish/completions/fedflow.fish`.
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click has no completion for {shell}")
    variable = f"_{program.upper()}_COMPLETE"
    root = click.get_current_context().find_root().command
    click.echo(kind(root, {}, program, variable).source())
