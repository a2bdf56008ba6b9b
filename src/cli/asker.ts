import { styleText } from 'node:util';
import { Help } from 'commander';
import { MirrorError, UsageError } from '../platform/errors.ts';
import { type Cli, writeText } from './cli.ts';
import { printable } from './text.ts';

export interface Question {
  text: string;
  /** The setting or the option by which a script gives the answer. */
  flag: string;
  /** The answer that Enter gives; a person may edit it. Undefined: something must be answered. */
  otherwise?: string | undefined;
  /** Not shown as it is typed. */
  isHidden?: boolean;
  /** One of these values, each with what is shown for it. */
  choices?: readonly (readonly [value: string, label: string])[] | undefined;
  /** What is wrong with a typed answer; null: nothing. */
  problem?: (answer: string) => string | null;
}

/** Who answers: a person at a terminal, or nobody. Then only options and present settings count. */
export interface Asker {
  isPerson: boolean;
  ask(question: Question): Promise<string>;
  /** Resolves when Enter is pressed; never after `until` has aborted, nor if there is nobody. */
  enter(text: string, until: AbortSignal): Promise<void>;
  say(line: string, mark?: 'good' | 'bad'): void;
}

/** For scripts: a question without `otherwise` is a usage error. */
export const nobody = ({ out }: Pick<Cli, 'out'>): Asker => ({
  isPerson: false,
  async ask({ text, otherwise, flag }) {
    if (otherwise !== undefined) return otherwise;
    throw new UsageError(`${text}: not given, and nobody is asked`, `give it with ${flag}`);
  },
  enter(text) {
    writeText(out, text);
    return new Promise<never>(() => undefined);
  },
  say: (line) => writeText(out, line),
});

const YES_NO = ['Yes', 'No'].map((each) => [each, each] as const);

export async function yes(asker: Asker, text: string, otherwise = true): Promise<boolean> {
  const question = { text, flag: '--yes', otherwise: otherwise ? 'Yes' : 'No', choices: YES_NO };
  return (await asker.ask(question)) === 'Yes';
}

export const stopped = () => new MirrorError('stopped', 'stopped before the end');

/** Columns before each line, and in all if the terminal does not say. */
const MARGIN = 3;
const WIDTH = 80;
/** Ctrl-D. Without this alias the library would wait for ever. */
const END_OF_INPUT = '\x04';

/** `signal` ends the questions. The terminal is raw while one is open, so Ctrl-C is an answer there, and a signal elsewhere. */
async function personAt({ out }: Pick<Cli, 'out'>, signal: AbortSignal): Promise<Asker> {
  // Loaded only where somebody is asked.
  const clack = await import('@clack/prompts');
  clack.updateSettings({ aliases: { [END_OF_INPUT]: 'cancel' } });
  const bar = styleText('gray', '│');
  const linesOf = (text: string) =>
    new Help().boxWrap(printable(text), (out.columns ?? WIDTH) - MARGIN).split('\n');
  const messageOf = (text: string) => linesOf(text).join(`\n${bar}  `);

  /** Null: ended by `until`. Each prompt has a signal of its own, because it listens to it until the process ends. */
  async function prompt(show: (end: AbortSignal) => Promise<string | symbol>, until = signal) {
    const own = new AbortController();
    const end = () => own.abort();
    const signals = [signal, until];
    for (const each of signals) each.addEventListener('abort', end);
    try {
      signal.throwIfAborted();
      const answer = await show(own.signal);
      if (!clack.isCancel(answer)) return answer as string;
      if (signal.aborted || !until.aborted) throw stopped();
      return null;
    } finally {
      for (const each of signals) each.removeEventListener('abort', end);
    }
  }

  return {
    isPerson: true,
    async ask({ text, otherwise, isHidden, choices, problem }) {
      const message = messageOf(text);
      const validate = (answer = '') =>
        (answer === '' ? otherwise === undefined && 'Nothing is typed.' : problem?.(answer.trim())) ||
        undefined;
      const initial = otherwise === undefined ? {} : { initialValue: otherwise };
      const options = choices?.map(([value, label]) => ({ value, label }));
      const answer = await prompt((end) => {
        if (options !== undefined) return clack.select({ message, options, ...initial, signal: end });
        if (isHidden) return clack.password({ message, validate, signal: end });
        return clack.text({ message, ...initial, validate, signal: end });
      });
      return (answer ?? '').trim();
    },
    async enter(text, until) {
      const asked = { message: messageOf(text), placeholder: 'Enter: go on without it' };
      const pressed = await prompt((end) => clack.text({ ...asked, signal: end }), until);
      if (pressed === null) await new Promise<never>(() => undefined);
    },
    say(text, mark) {
      const options = { spacing: 0 };
      if (mark === 'good') clack.log.success(linesOf(text).join('\n'), options);
      else if (mark === 'bad') clack.log.error(linesOf(text).join('\n'), options);
      else clack.log.message(linesOf(text), { ...options, symbol: bar });
    },
  };
}

/** A person, if standard input and output are a terminal and `--yes` is not given. */
export async function askerFor(cli: Cli, options: { yes?: true }, signal: AbortSignal): Promise<Asker> {
  const isPerson = !options.yes && process.stdin.isTTY === true && cli.out.isTerminal;
  return isPerson ? await personAt(cli, signal) : nobody(cli);
}
