import { createInterface, type Interface } from 'node:readline';
import { Writable } from 'node:stream';
import { MirrorError, UsageError } from '../../platform/errors.ts';

export interface Question {
  text: string;
  /** What an empty answer means; for a secret its words, such as "the one that is set". */
  otherwise?: string;
  /** Not shown as it is typed. */
  isHidden?: true;
  /** How a script gives it, such as "--base-url". */
  flag: string;
}

/** Who answers: a person at a terminal, or nobody, where flags and what is set already must do. */
export interface Asker {
  isPerson: boolean;
  /** Empty: what `otherwise` says. Rejects where nobody answers and nothing else is known. */
  ask(question: Question): Promise<string>;
  /** Resolves when Enter is pressed from now on, and never after `until` has aborted, nor where nobody sits. */
  enter(until: AbortSignal): Promise<void>;
  /** Lets standard input go, for somebody else to read it; the next question takes it again. */
  release(): void;
}

/** For scripts: every answer that is not known already is a usage error. */
export const nobody: Asker = {
  isPerson: false,
  async ask({ text, otherwise, flag }) {
    if (otherwise !== undefined) return '';
    throw new UsageError(`${text}: not given, and nobody is asked`, `give it with ${flag}`);
  },
  enter: () => new Promise(() => undefined),
  release: () => undefined,
};

/** `signal` ends whatever is being asked. Ctrl-C reaches the process as a signal, as without us. */
export function personAt(input: NodeJS.ReadStream, output: NodeJS.WriteStream, signal: AbortSignal): Asker {
  let lines: Interface | null = null;
  let isMuted = false;
  let hasEnded = false;
  const typed: string[] = [];
  let waiting: (() => void) | null = null;
  const screen = new Writable({
    write(chunk, encoding, done) {
      if (!isMuted) output.write(chunk, encoding);
      done();
    },
  });
  // For wrapping long lines as they are edited.
  Object.defineProperty(screen, 'columns', { get: () => output.columns });

  function open(): Interface {
    if (lines !== null) return lines;
    const opened = createInterface({ input, output: screen, terminal: true, historySize: 0 });
    opened.on('line', (line) => {
      typed.push(line);
      waiting?.();
    });
    // Raw as the terminal is while lines are edited, it sends none by itself.
    opened.on('SIGINT', () => process.kill(process.pid, 'SIGINT'));
    opened.on('close', () => {
      if (lines !== opened) return;
      hasEnded = true;
      waiting?.();
    });
    lines = opened;
    return opened;
  }

  async function nextLine(until = signal): Promise<string> {
    for (;;) {
      signal.throwIfAborted();
      until.throwIfAborted();
      const line = typed.shift();
      if (line !== undefined) return line;
      if (hasEnded) throw new MirrorError('no_answer', 'the input ended before everything was answered');
      await new Promise<void>((resolve) => {
        waiting = resolve;
        for (const end of new Set([signal, until]))
          end.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  return {
    isPerson: true,
    async ask({ text, otherwise, isHidden = false }) {
      const shown = open();
      shown.setPrompt(`${text}${otherwise === undefined ? '' : ` [${otherwise}]`}: `);
      shown.prompt();
      isMuted = isHidden;
      try {
        return (await nextLine()).trim();
      } finally {
        isMuted = false;
        if (isHidden) output.write('\n');
      }
    },
    async enter(until) {
      open();
      typed.length = 0;
      // Nobody who has left can press it: the wait then ends by its time.
      await nextLine(until).catch(() => new Promise<never>(() => undefined));
    },
    release() {
      const shown = lines;
      lines = null;
      shown?.close();
    },
  };
}
