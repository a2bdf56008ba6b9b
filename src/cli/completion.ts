import { Argument, Command } from 'commander';
import type { Cli } from './cli.ts';

const SHELLS = ['bash', 'zsh', 'fish'] as const;
type Shell = (typeof SHELLS)[number];

const INSTALL: Readonly<Record<Shell, string>> = {
  bash: 'compliance-mirror completion bash > ~/.local/share/bash-completion/completions/compliance-mirror',
  zsh: 'source <(compliance-mirror completion zsh)   # in ~/.zshrc, after compinit',
  fish: 'compliance-mirror completion fish > ~/.config/fish/completions/compliance-mirror.fish',
};

/** `program` makes the whole tree of commands. */
export function completionCommand(cli: Cli, program: () => Promise<Command>): Command {
  return new Command('completion')
    .description('a script that completes commands and options in your shell')
    .addArgument(new Argument('<shell>', 'which one').choices(SHELLS))
    .addHelpText('after', `\n${SHELLS.map((shell) => `${shell}: ${INSTALL[shell]}`).join('\n')}`)
    .action(async (shell: Shell) => {
      const words = wordsOf(await program());
      if (shell === 'fish') cli.out.write(fishScript(words));
      // zsh can run the script of bash.
      else cli.out.write(`${shell === 'zsh' ? ZSH_HEAD : ''}${bashScript(words)}`);
    });
}

/** The words that may follow each command; `''` is the executable alone. They are letters, digits and hyphens, so nothing is quoted. */
type Words = ReadonlyMap<string, readonly string[]>;

function wordsOf(command: Command, path = ''): Map<string, string[]> {
  const options = command.options.flatMap(({ long, hidden }) => (long === undefined || hidden ? [] : [long]));
  const choices = command.registeredArguments.flatMap(({ argChoices }) => argChoices ?? []);
  const own = [...command.commands.map((each) => each.name()), ...choices, ...options, '--help'];
  const below = command.commands.flatMap((each) => [...wordsOf(each, `${path} ${each.name()}`.trimStart())]);
  return new Map([[path, [...new Set(own)]], ...below]);
}

const ZSH_HEAD = 'autoload -U +X bashcompinit && bashcompinit\n';

function bashScript(words: Words): string {
  const cases = [...words].map(([path, some]) => `    '${path}') words='${some.join(' ')}' ;;\n`);
  return `_compliance_mirror() {
  local typed='' word words=''
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
    case "$word" in -*) continue ;; esac
    case "\${typed:+$typed }$word" in
${[...words.keys()]
  .filter((path) => path !== '')
  .map((path) => `      '${path}') typed='${path}' ;;\n`)
  .join('')}    esac
  done
  case "$typed" in
${cases.join('')}  esac
  COMPREPLY=($(compgen -W "$words" -- "\${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _compliance_mirror compliance-mirror
`;
}

function fishScript(words: Words): string {
  const lines = [...words].flatMap(([path, some]) => {
    const seen = path.split(' ').map((command) => `__fish_seen_subcommand_from ${command}`);
    const isHere = path === '' ? '__fish_use_subcommand' : seen.join('; and ');
    return some.map((word) => {
      const what = word.startsWith('--') ? `-l ${word.slice(2)}` : `-a ${word}`;
      return `complete -c compliance-mirror -n '${isHere}' ${what}\n`;
    });
  });
  return lines.join('');
}
