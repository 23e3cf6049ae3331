"""``divergraph completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from divergraph.cli.say import say_lines

_VARIABLE = "_DIVERGRAPH_COMPLETE"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(ctx: click.Context, shell: str) -> None:
    """Print what makes SHELL complete commands, options, their values and names of runs.

    \b
    bash: echo 'eval "$(divergraph completion bash)"' >> ~/.bashrc
    zsh:  echo 'eval "$(divergraph completion zsh)"' >> ~/.zshrc
    fish: divergraph completion fish > ~/.config/fish/completions/divergraph.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    completion = kind(ctx.find_root().command, {}, "divergraph", _VARIABLE)
    text = (completion.source_template % completion.source_vars()).strip()
    # click's script for fish ends names and what is said of them at a comma in them.
    say_lines(text.replace('string split ","', 'string split --max 1 ","'))
